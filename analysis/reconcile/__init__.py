"""Turns a record's tables into anomalies, with Spark DataFrames."""

from analysis.reconcile.reconciling import checked_run, reconcile, reconcile_all, reconcile_runs

__all__ = ["checked_run", "reconcile", "reconcile_all", "reconcile_runs"]
