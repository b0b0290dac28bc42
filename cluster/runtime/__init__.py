"""Runtimes: where the nodes of a cluster live."""
