"""Names the cause of a lost record: what each replica held, which histories fit, and what the protocol allows."""
