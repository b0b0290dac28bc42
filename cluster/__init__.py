"""What makes nodes run and break on a host."""
