"""`ebbtide clean`: remove what a killed run left on this host."""

from __future__ import annotations

import argparse
import sys

from harness.errors import ExitCode
from harness.powers.choice import Wish


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.description = (
        "Undo what dead runs left outside their folders: processes, containers, network namespaces, volumes, kernel "
        "settings. "
        "Runs that are still going, and everything that ebbtide did not make, stay as they are. "
        "Exit code 0: nothing is left, 3: something could not be undone."
    )


def powers(args: argparse.Namespace) -> Wish:
    """Without root there is something to clean only where a Docker daemon gave a run root's powers."""
    return Wish(runtime="docker", needed=False)


def run(args: argparse.Namespace) -> ExitCode:
    """Clean, and say what was undone, left alone and not possible."""
    from harness.clean import clean
    from harness.ledger import ledgers_dir

    outcomes = clean()
    for outcome in outcomes:
        if outcome.live:
            print(f"{outcome.run_id}: still running, left alone")
        for thing in outcome.undone:
            print(f"{outcome.run_id}: undone: {thing}")
        for failure in outcome.failed:
            print(f"{outcome.run_id}: NOT undone: {failure}", file=sys.stderr)
    if not any(outcome.undone or outcome.failed for outcome in outcomes):
        print(f"nothing to clean (ledgers are in {ledgers_dir()})")
    return ExitCode.HARNESS_FAILED if any(outcome.failed for outcome in outcomes) else ExitCode.AS_PREDICTED
