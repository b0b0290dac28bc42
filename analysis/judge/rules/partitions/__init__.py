"""Promises on the states and transitions of partitions in the metadata log."""
