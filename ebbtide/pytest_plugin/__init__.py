"""Ebbtide in pytest.

Fixtures are real Kafka clusters, markers name scenarios, and verdicts are test results.
"""
