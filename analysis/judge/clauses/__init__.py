"""The checks of clauses: each compares a run's history with a protocol promise."""
