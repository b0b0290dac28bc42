"""Judges a record as a whole: completes it, reconciles it, judges it, reports it."""
