"""How a command speaks to the process that owns a cluster."""
