"""`ebbtide clean`: remove what a killed run left on this host."""

from __future__ import annotations

import sys

from cluster.privileges.choice import PrivilegeRequest
from ebbtide.errors import ExitCode
from harness.cli.command import Args, Command


def command() -> Command:
    """Declare the verb's arguments."""
    command = Command(
        "Undo what dead runs left outside their folders: processes, containers, network namespaces, volumes, kernel "
        "settings, and temporary folders of judgings that were killed. "
        "Runs that are still going, and everything that ebbtide did not make, stay as they are. "
        "Exit code 0: nothing is left, 3: something could not be undone."
    )
    command.flag(
        "--forget",
        help="strike out what cannot be undone, for example containers of a Docker daemon that is gone for good",
    )
    return command


def powers(args: Args) -> PrivilegeRequest:
    """Without root there is something to clean only where a Docker daemon gave a run root's powers."""
    return PrivilegeRequest(runtime="docker", needed=False)


def run(args: Args) -> ExitCode:
    """Clean, and say what was undone, left alone and not possible."""
    from cluster.clean import clean
    from cluster.host.ledger import ledgers_dir

    outcomes = clean(forget=args.forget)
    for outcome in outcomes:
        if outcome.live:
            print(f"{outcome.run_id}: still running, left alone")
        for thing in outcome.undone:
            print(f"{outcome.run_id}: undone: {thing}")
        for failure in outcome.failed:
            how = "NOT undone, forgotten" if args.forget else "NOT undone"
            print(f"{outcome.run_id}: {how}: {failure}", file=sys.stderr)
    if not any(outcome.undone or outcome.failed for outcome in outcomes):
        print(f"nothing to clean (ledgers are in {ledgers_dir()})")
    left = not args.forget and any(outcome.failed for outcome in outcomes)
    if left:
        print("gone for good, as with its Docker daemon? ebbtide clean --forget strikes it out", file=sys.stderr)
    return ExitCode.HARNESS_FAILED if left else ExitCode.AS_PREDICTED
