"""Producers, consumers and the HW sampler, and the crash-safe journals they write."""
