"""Faults, one module per family: each injects, proves that it took effect, and heals."""
