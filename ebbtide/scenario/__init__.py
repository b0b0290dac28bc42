"""Scenario files: model, validation, roles, the catalogue."""
