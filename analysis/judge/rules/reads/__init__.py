"""Promises on what consumers get, and on the second reading."""
