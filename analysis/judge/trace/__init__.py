"""Holds the metadata log of a real run against the protocol: every transition must be one that it allows."""
