"""Promises on transactions."""
