"""Many runs in a row, until a budget ends: nights, their store, and what became of them over time."""
