"""Draws pictures of runs as SVG that is complete without JavaScript."""
