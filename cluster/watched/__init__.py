"""What a watch makes on a cluster that Ebbtide did not start, and how it connects there."""
