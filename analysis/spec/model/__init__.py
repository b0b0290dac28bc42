"""One partition, its brokers and the requests in flight, as a state machine that a program can search.

The controller's and the leader's decisions are those of `analysis.spec`; this package adds what they decide
about: processes, disks, logs, sessions and the network. What is abstracted away, and why it cannot matter,
stands in docs/spec-check.md.
"""
