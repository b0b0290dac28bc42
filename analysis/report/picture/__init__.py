"""What happened in one run, as spans, marks and series on one time axis."""
