"""Reconciles what was produced against what was read, in Spark."""
