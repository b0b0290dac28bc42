"""Reads a run record: evidence, reconciliation in Spark, judgement, report. Needs no cluster and no root."""
