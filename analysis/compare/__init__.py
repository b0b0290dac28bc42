"""Compares recorded runs of one schedule: on one time axis, with what differs in words."""
