"""What somebody else wrote: files that are read here, and texts that are shown here."""
