"""`ebbtide spec ...`: the protocol specification, one module a subcommand."""

from __future__ import annotations

import argparse
import importlib
from typing import Any

from ebbtide.errors import ExitCode

_SUBCOMMANDS: dict[str, str] = {
    "check": "whether a property holds in every state of a small configuration",
    "find": "write the counterexample of a property as a scenario that runs on real Kafka",
    "rules": "print the effective rules of a variant, from top to bottom",
    "vectors": "compare the specification with conformance vectors",
}
"""Each subcommand and its line in the help; its module is `harness.cli.spec_<name>`."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommands."""
    parser.description = "Kafka's replication protocol as a program: compare it, explore it."
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, line in _SUBCOMMANDS.items():
        _module(name).add(actions.add_parser(name, help=line))


def run(args: argparse.Namespace) -> ExitCode:
    """Run the subcommand that was typed."""
    code: ExitCode = _module(args.action).run(args)
    return code


def _module(name: str) -> Any:
    return importlib.import_module(f"harness.cli.spec_{name}")
