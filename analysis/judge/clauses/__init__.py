"""The checks of clauses: what the protocol promises, held against the history of a run."""
