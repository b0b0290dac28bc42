"""One partition, its brokers and the requests in flight, as a state machine.

A program can search it. The controller's and the leader's decisions are those of `analysis.spec`.
This package adds what they decide about: processes, disks, logs, sessions and the network.
docs/spec.md says what is abstracted away, and why it cannot matter.
"""
