"""Kafka releases and Spark connectors: fetched, checked and cached."""
