"""What a person sees of a judged run."""
