"""Sums up the rows of run records as NumPy arrays, and says which kinds of anomalies can occur."""
