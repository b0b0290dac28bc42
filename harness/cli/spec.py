"""`ebbtide spec ...`: the protocol specification, one module for each subcommand."""

from __future__ import annotations

import importlib

from ebbtide.errors import ExitCode
from harness.cli.command import Args, LazyGroup

_SUBCOMMANDS: dict[str, str] = {
    "check": "check that a property holds in every state of a small configuration",
    "find": "write a counterexample of a property as a scenario for real Kafka",
    "rules": "print the effective rules of a protocol variant",
    "vectors": "compare the specification with conformance vectors",
}
"""Each subcommand and its line in the help; its module is `harness.cli.spec_<name>`."""
_PREFIX = "harness.cli.spec_"


def command() -> LazyGroup:
    """Declare the subcommands."""
    return LazyGroup(
        "Check, explore and print Kafka's replication protocol, written as a program.",
        _SUBCOMMANDS,
        _PREFIX,
        dest="action",
        metavar="ACTION",
    )


def run(args: Args) -> ExitCode:
    """Run the subcommand that was typed."""
    code: ExitCode = importlib.import_module(f"{_PREFIX}{args.action}").run(args)
    return code
