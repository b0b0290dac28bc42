"""Judges a record: causes, invariants, predictions, the verdict."""
