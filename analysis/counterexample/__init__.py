"""Draws a counterexample of the specification as lanes and messages, step by step."""
