"""What was read of a cluster that Ebbtide did not start."""
