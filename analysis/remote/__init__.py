"""Run records on any Hadoop file system: listed, copied and written back through Spark's own client of it."""
