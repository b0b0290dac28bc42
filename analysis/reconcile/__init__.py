"""Turns a record's tables into anomalies, with Spark DataFrames."""

from analysis.reconcile.reconciling import reconcile, reconcile_all

__all__ = ["reconcile", "reconcile_all"]
