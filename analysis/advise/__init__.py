"""Says what a cluster could lose, from its snapshot."""
