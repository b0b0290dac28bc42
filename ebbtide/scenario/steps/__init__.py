"""The kinds of steps, one module per family: everything that is true of a kind is said there, and only there."""
