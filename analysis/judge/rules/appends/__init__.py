"""Promises on what producers append."""
