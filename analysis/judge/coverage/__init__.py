"""What a run exercised, counted: the coverage facts."""
