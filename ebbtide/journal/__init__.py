"""What client processes write while they run, and the tables that are made of it."""
