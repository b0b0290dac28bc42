"""How a command talks to the daemon, the process that owns a cluster by hand."""
