"""A run record on the driver: what its small files say, read once, and its tables in batches."""
