"""The final log as Spark's own Kafka connector reads it: a second witness beside the harness's final read."""
