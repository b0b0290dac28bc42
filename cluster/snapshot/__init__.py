"""Reads a cluster that Ebbtide did not start, over the network."""
