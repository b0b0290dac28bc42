"""Says a verdict, a step and an election in words, for the terminal, pages, explanations and comparisons."""
