"""The client processes of a run: producers, consumers, sampler and final read.

They write crash-safe journals (`ebbtide.journal`).
"""
