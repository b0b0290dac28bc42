"""Writes the nights of stores as a static site: HTML pages that need no server and no network."""
