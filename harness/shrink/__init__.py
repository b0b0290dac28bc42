"""Finds a smaller scenario with the same finding by delta debugging of real runs."""
