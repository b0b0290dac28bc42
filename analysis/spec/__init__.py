"""Kafka's replication protocol as a program: one variant per set of rules that a release or a KIP has.

A variant is a `Protocol`; the modules `kraft`, `kip903`, ... each state what differs from the one before.
"""
