"""Searches all reachable states, and reports the shortest way to a forbidden one."""
