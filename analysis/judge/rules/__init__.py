"""The clauses, by subject. Each compares what a run shows with a promise of the protocol."""
