"""Random schedules: drawn from a seed or mutated from rare ones, and always valid."""
