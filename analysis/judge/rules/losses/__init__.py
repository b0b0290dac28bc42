"""Promises on committed records and HWs."""
