"""Decodes what Kafka left on disk: metadata log, replica logs, checkpoints."""
