"""`ebbtide spec ...`: the protocol specification, one module for each subcommand."""

from __future__ import annotations

from harness.cli.command import Group

_SUBCOMMANDS: dict[str, str] = {
    "check": "check that a property holds in every state of a small configuration",
    "find": "write a counterexample of a property as a scenario for real Kafka",
    "rules": "print the effective rules of a protocol variant",
    "vectors": "compare the specification with conformance vectors",
}
"""Each subcommand and its line in the help; its module is `harness.cli.spec_<name>`."""


def command() -> Group:
    """Declare the subcommands."""
    group = Group(
        "Check, explore and print Kafka's replication protocol, written as a program.", dest="action", metavar="ACTION"
    )
    for name, line in _SUBCOMMANDS.items():
        group.lazy_action(name, f"harness.cli.spec_{name}", help=line)
    return group
