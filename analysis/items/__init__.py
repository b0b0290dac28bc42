"""Turns a record's tables into anomalies, kind by kind."""

from analysis.items.reconciling import check_record, reconcile_checked

__all__ = ["check_record", "reconcile_checked"]
