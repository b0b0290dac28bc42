"""Replays a recorded schedule on the recorded state, and compares the two runs."""
