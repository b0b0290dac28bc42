"""The daemon owns a cluster by hand; other commands reach it over a socket."""
