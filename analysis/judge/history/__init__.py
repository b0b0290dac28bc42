"""What the judge reads of a record: the metadata timeline, rules in force, elections, and what logs lost."""
