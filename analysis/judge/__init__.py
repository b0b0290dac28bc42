"""Judges anomalies against the specification: causes, invariants, predictions, the verdict."""
