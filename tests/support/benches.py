"""Runs a benchmark as a person does, small enough for a test."""

from __future__ import annotations

import os
import subprocess
import sys

from checkout import ROOT

_TIMEOUT_S = 900.0
"""Longer than any of them takes on a slow host that has other work."""


def run_bench(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m bench.NAME ARGUMENTS` from the root of the checkout to its end."""
    return subprocess.run(
        [sys.executable, "-m", f"bench.{name}", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests" / "support")},
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )


def assert_ended_well(done: subprocess.CompletedProcess[str]) -> None:
    """Fail the test, with all output, if a benchmark ended with another code than 0."""
    command = " ".join(map(str, done.args))
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
