"""Reads a record for the judge: timeline, rules in force, elections, log losses."""
