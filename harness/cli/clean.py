"""`ebbtide clean`: undoes what killed runs left on this host."""

from __future__ import annotations

import sys

from cluster.privileges.choice import PrivilegeRequest
from ebbtide.errors import ExitCode
from harness.cli.command import Args, Command


def command() -> Command:
    """Declare the verb's arguments."""
    command = Command(
        "Undo what killed runs left outside their folders: processes, containers, network namespaces, volumes, kernel "
        "settings, and temporary folders. Does not touch runs that are still running, or anything that ebbtide did "
        "not make. Exit code 0: nothing is left, 3: something could not be undone."
    )
    command.flag(
        "--forget",
        help="forget what cannot be undone, for example containers of a Docker daemon that no longer exists",
    )
    command.flag("--json", help="print one JSON object for each ledger, one a line")
    return command


def privileges(args: Args) -> PrivilegeRequest:
    """Ask for the helper container, the only place where a user leaves anything.

    Root needs no container.
    """
    return PrivilegeRequest(runtime="docker", needed=False)


def run(args: Args) -> ExitCode:
    """Clean, and print what was undone, what still runs, and what could not be undone."""
    from cluster.clean import clean
    from cluster.host.ledger import ledgers_dir

    outcomes = clean(forget=args.forget)
    left = not args.forget and any(outcome.failed for outcome in outcomes)
    code = ExitCode.HARNESS_FAILED if left else ExitCode.AS_PREDICTED
    if args.json:
        import msgspec

        for outcome in outcomes:
            print(msgspec.json.encode(outcome).decode())
        return code
    for outcome in outcomes:
        if outcome.live:
            print(f"{outcome.run_id}: still running, not touched")
        for thing in outcome.undone:
            print(f"{outcome.run_id}: undone: {thing}")
        for failure in outcome.failed:
            how = "NOT undone, and forgotten" if args.forget else "NOT undone"
            print(f"{outcome.run_id}: {how}: {failure}", file=sys.stderr)
    if not any(outcome.undone or outcome.failed for outcome in outcomes):
        print(f"nothing to clean (ledgers are in {ledgers_dir()})")
    if left:
        print(
            "next: ebbtide clean --forget    (if it no longer exists, for example with its Docker daemon)",
            file=sys.stderr,
        )
    return code
