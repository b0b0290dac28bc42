"""Runs a recorded schedule again, and says how far the two runs agree.

The replay starts on the recorded state.
"""
