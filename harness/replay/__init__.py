"""Runs a recorded schedule again, on the recorded state, and says how far the two runs agree."""
