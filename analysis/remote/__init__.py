"""Reads and writes run records on any Hadoop file system, through Spark's client."""
