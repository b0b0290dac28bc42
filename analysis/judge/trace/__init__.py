"""Checks a real metadata log: the protocol must allow every transition."""
