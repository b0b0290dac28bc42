"""Random schedules: drawn from a seed, valid by construction, and bred from those that reached what few reach."""
