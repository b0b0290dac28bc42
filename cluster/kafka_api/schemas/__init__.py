"""Requests that kafka-python has no definition of, in the form of Kafka's own."""
