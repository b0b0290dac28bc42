"""Starts the Java process of Spark, without importing PySpark: that takes as long as Java needs until it listens."""
