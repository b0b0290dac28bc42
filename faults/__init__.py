"""Faults, one module for each family: each injects, proves its effect, and heals."""
