"""`ebbtide clean`: undoes what killed runs left on this host."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ebbtide.errors import ExitCode
from harness.cli import options
from harness.cli.command import Args, Command
from harness.cli.output import print_json

if TYPE_CHECKING:
    from cluster.clean import CleanOutcome


def command() -> Command:
    """Declare the verb's arguments."""
    command = Command(
        "Undo what killed runs left outside their folders: processes, containers, network namespaces, volumes, kernel "
        "settings, temporary folders, and the topics of watches. Does not touch runs that are still running, or "
        "anything that ebbtide did not make.",
        codes={0: "nothing is left", 3: "something could not be undone, or you interrupted it"},
    )
    command.flag(
        "--forget",
        help="forget what cannot be undone, for example containers of a Docker daemon that no longer exists",
    )
    options.add_json_option(command)
    return command


def run(args: Args) -> ExitCode:
    """Clean, and print what was undone, what still runs, and what could not be undone."""
    from cluster.clean import clean
    from cluster.host.ledger import ledgers_dir

    outcomes = clean(forget=args.forget)
    left = not args.forget and any(outcome.failed for outcome in outcomes)
    code = ExitCode.HARNESS_FAILED if left else ExitCode.AS_PREDICTED
    _print_outcomes(outcomes, args)
    if (code_of_root := _clean_as_root(args)) is not None:
        return ExitCode.worst([code, code_of_root])
    if not args.json and not any(outcome.undone or outcome.failed for outcome in outcomes):
        print(f"nothing to clean (ledgers are in {ledgers_dir()})")
    if left and not args.json:
        print("next: ebbtide clean --forget    (if its host or Docker daemon no longer exists)", file=sys.stderr)
    return code


def _clean_as_root(args: Args) -> ExitCode | None:
    """Clean also in the helper container, where an ordinary user's runs have their ledgers; None without it.

    This process has cleaned what the user left without it: the topics of watches.
    """
    if os.geteuid() == 0:
        return None
    from cluster.privileges.choice import PrivilegeRequest, rerun_with_privileges

    sys.stdout.flush()
    code = rerun_with_privileges(PrivilegeRequest(runtime="docker", needed=False), args.argv)
    return None if code is None else ExitCode(code) if code in list(ExitCode) else ExitCode.HARNESS_FAILED


def _print_outcomes(outcomes: Sequence[CleanOutcome], args: Args) -> None:
    if args.json:
        for outcome in outcomes:
            print_json(outcome)
        return
    for outcome in outcomes:
        if outcome.live:
            print(f"{outcome.run_id}: still running, not touched")
        for thing in outcome.undone:
            print(f"{outcome.run_id}: undone: {thing}")
        for failure in outcome.failed:
            how = "NOT undone, and forgotten" if args.forget else "NOT undone"
            print(f"{outcome.run_id}: {how}: {failure}", file=sys.stderr)
