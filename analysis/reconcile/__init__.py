"""Turns a record's tables into anomalies, with Spark DataFrames."""

from analysis.reconcile.reconciling import reconcile

__all__ = ["reconcile"]
