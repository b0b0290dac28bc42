"""Searches all states that a configuration can reach, and reports the shortest way to one that must not be."""
