"""Watches a cluster that Ebbtide did not start, while somebody else breaks it."""
