"""Ebbtide in pytest: real Kafka clusters as fixtures, scenarios as markers, verdicts as test results."""
