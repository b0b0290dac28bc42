"""Decides the outcome of a run: its prediction, and each reason as a sentence."""
