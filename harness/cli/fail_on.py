"""The option --fail-on, which lets a lost record fail a command that its outcome alone would let pass."""

from __future__ import annotations

from ebbtide.record.outcomes import FailOn
from harness.cli.command import Command

_MEANS = (
    "`loss`: exit code 1 also if a run loses committed records as predicted, or without a prediction; `outcome`: the "
    "outcome alone decides"
)


def add_fail_on_option(command: Command, default: FailOn = "outcome") -> None:
    """Declare --fail-on."""
    command.option(
        "--fail-on",
        choices=("outcome", "loss"),
        default=default,
        help=f"what fails the command (default {default}). {_MEANS}",
    )
