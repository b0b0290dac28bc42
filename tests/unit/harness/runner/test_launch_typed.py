"""The options with which a suggested command runs as the command did that suggests it."""

from __future__ import annotations

import shlex
from pathlib import Path

from harness.runner.launch import LaunchOptions


def test_a_suggested_run_has_every_option_that_was_given_and_no_other() -> None:
    assert LaunchOptions().typed() == ""
    given = LaunchOptions(runs=Path("my runs"), runtime="docker", image="apache/kafka:3.9.1", power_loss="truncate")
    assert shlex.split(given.typed()) == [
        *("--runs", "my runs", "--runtime", "docker"),
        *("--image", "apache/kafka:3.9.1", "--power-loss", "truncate"),
    ]
