"""A night runs scenarios until its budget ends; its store compares nights."""
