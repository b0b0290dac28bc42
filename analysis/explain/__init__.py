"""Tells the life of one record of a run, from the evidence of its run record."""
