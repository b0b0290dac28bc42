"""Shows a judged run to a person."""
