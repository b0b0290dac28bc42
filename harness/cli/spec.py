"""`ebbtide spec ...`: the protocol specification, one module a subcommand."""

from __future__ import annotations

import importlib

from ebbtide.errors import ExitCode
from harness.cli.command import Args, LazyGroup

_SUBCOMMANDS: dict[str, str] = {
    "check": "whether a property holds in every state of a small configuration",
    "find": "write the counterexample of a property as a scenario that runs on real Kafka",
    "rules": "print the effective rules of a variant, from top to bottom",
    "vectors": "compare the specification with conformance vectors",
}
"""Each subcommand and its line in the help; its module is `harness.cli.spec_<name>`."""
_PREFIX = "harness.cli.spec_"


def command() -> LazyGroup:
    """Declare the subcommands."""
    return LazyGroup(
        "Kafka's replication protocol as a program: compare it, explore it.",
        _SUBCOMMANDS,
        _PREFIX,
        dest="action",
        metavar="ACTION",
    )


def run(args: Args) -> ExitCode:
    """Run the subcommand that was typed."""
    code: ExitCode = importlib.import_module(f"{_PREFIX}{args.action}").run(args)
    return code
