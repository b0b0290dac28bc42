"""A cluster that outlives the command that started it: one process owns it, others talk to that over a socket."""
