"""`ebbtide doctor`: what this host can do, what that disables, and what to type."""

from __future__ import annotations

from cluster.doctor import Check, check_host
from cluster.privileges.choice import PrivilegeRequest
from ebbtide.errors import ExitCode
from harness.cli.command import Args, Command


def command() -> Command:
    """Declare the verb's arguments."""
    command = Command(
        "Try for real what runs need. Exit code 0: the host has what every run needs, 2: it lacks some of that."
    )
    command.flag("--json", help="print the checks as a JSON array")
    return command


def powers(args: Args) -> PrivilegeRequest:
    """What a run of this user could do is tried with the powers that it would have."""
    return PrivilegeRequest(needed=False)


def run(args: Args) -> ExitCode:
    """Check and print."""
    checks = check_host()
    lacking = [check for check in checks if check.status != "ok"]
    if args.json:
        import msgspec

        print(msgspec.json.format(msgspec.json.encode(checks)).decode())
    else:
        _print(checks, lacking)
    return ExitCode.INCONCLUSIVE if any(check.needed for check in lacking) else ExitCode.AS_PREDICTED


def _print(checks: list[Check], lacking: list[Check]) -> None:
    from harness.cli.output import print_table

    print_table(("check", "state", "seen"), [(check.name, check.status, check.detail) for check in checks])
    for check in lacking:
        print(f"\n{check.name}: {check.status}{'' if check.needed else ' (the local runtime does not need it)'}")
        if check.disables:
            print(f"  disables: {', '.join(check.disables)}")
        if check.remedy:
            print(f"  next:     {check.remedy}")
    if not any(check.needed for check in lacking):
        print("\nThe local runtime can do everything here.")
