"""Reads the final log with Spark's own Kafka connector, as a second witness.

The first witness is the harness's final read.
"""
