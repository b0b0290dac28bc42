"""Promises on what leaders serve."""
