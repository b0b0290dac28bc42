"""The `ebbtide` command: one module a verb."""
