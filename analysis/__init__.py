"""Reads a run record: evidence, reconciliation in Spark, judgement, report.

It needs no cluster and no root privileges.
"""
