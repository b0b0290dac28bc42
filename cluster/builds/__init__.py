"""Builds of Kafka that are no published release: read, checked, and put into the cache of releases."""
