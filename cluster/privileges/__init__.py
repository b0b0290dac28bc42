"""How a user who is not root gets the privileges that a cluster needs."""
