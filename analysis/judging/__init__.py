"""A record judged as a whole: made complete, reconciled, judged, reported."""
