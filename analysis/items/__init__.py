"""Turns a record's tables into anomalies, kind by kind."""

from analysis.items.reconciling import checked_run, reconcile, reconcile_all, reconcile_runs

__all__ = ["checked_run", "reconcile", "reconcile_all", "reconcile_runs"]
