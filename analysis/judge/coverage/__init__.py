"""Counts what a run exercised: the coverage facts."""
