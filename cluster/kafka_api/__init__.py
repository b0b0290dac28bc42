"""Requests to brokers that kafka-python has no method for."""
