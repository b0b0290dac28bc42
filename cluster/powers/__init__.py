"""The ways in which a user who is not root gets the powers that a cluster takes."""
