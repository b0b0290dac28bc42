"""What the rules of the judge declare, for the layers below it."""
