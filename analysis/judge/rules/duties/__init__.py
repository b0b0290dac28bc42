"""Clauses on what Kafka must do by itself, within a time."""
