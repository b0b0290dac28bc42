"""Finds a smaller scenario with the same finding, by delta debugging over real runs."""
