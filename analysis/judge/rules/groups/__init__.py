"""Promises on groups' commits and on copiers."""
