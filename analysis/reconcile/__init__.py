"""Reads a record's tables with Spark and NumPy, and compares what their rows say."""
