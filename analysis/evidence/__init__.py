"""Decodes what Kafka left on disk: record batches, the KRaft metadata log, replica logs, checkpoints."""
