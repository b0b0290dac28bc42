"""Finds a smaller scenario with the same finding.

It uses delta debugging over real runs.
"""
