"""Promises of the controllers' log and of the answers about it."""
