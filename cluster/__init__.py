"""The nodes of a cluster on this host: how they run, and how they are broken."""
