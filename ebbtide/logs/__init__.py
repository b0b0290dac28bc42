"""Kafka's log files: segments, record batches, checkpoints."""
