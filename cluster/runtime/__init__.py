"""Runtimes: where the nodes of a cluster run, as processes or in containers."""
