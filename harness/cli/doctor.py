"""`ebbtide doctor`: checks what this host can do, and says what to install."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from cluster.privileges.choice import PrivilegeRequest
from ebbtide.errors import ExitCode
from harness.cli import options
from harness.cli.command import Args, Command
from harness.cli.output import print_json, print_table

if TYPE_CHECKING:
    from cluster.doctor import Check


def command() -> Command:
    """Declare the verb's arguments."""
    command = Command(
        "Try out everything that runs need from this host. Checks that only some runs need do not change the exit "
        "code.",
        codes={0: "the host has what every run needs", 2: "it lacks something that every run needs"},
    )
    options.add_json_option(command)
    return command


def privileges(args: Args) -> PrivilegeRequest:
    """Ask for the privileges that a run of this user would have."""
    return PrivilegeRequest(needed=False)


def run(args: Args) -> ExitCode:
    """Check the host and print the result."""
    from cluster.doctor import check_host

    checks = check_host()
    lacking = [check for check in checks if check.status != "ok"]
    if args.json:
        print_json(checks, pretty=True)
    else:
        _print(checks, lacking)
    return ExitCode.INCONCLUSIVE if any(check.needed for check in lacking) else ExitCode.AS_PREDICTED


def _print(checks: list[Check], lacking: list[Check]) -> None:

    print_table(("check", "state", "seen"), [(check.name, check.status, check.detail) for check in checks])
    for alike in _grouped_by_remedy(lacking):
        names = ", ".join(check.name for check in alike)
        needed = any(check.needed for check in alike)
        print(f"\n{names}: {alike[0].status}{'' if needed else ' (runs work without it)'}")
        if disabled := dict.fromkeys(what for check in alike for what in check.disables):
            print(f"  disables: {', '.join(disabled)}")
        if alike[0].remedy:
            print(f"  next:     {alike[0].remedy}")
    if not any(check.needed for check in lacking):
        print("\nThis host has what every run on the local runtime needs.")


def _grouped_by_remedy(lacking: Sequence[Check]) -> Iterable[list[Check]]:
    """Group the checks that one command fixes; a check without a command is alone."""
    groups: dict[tuple[str, ...], list[Check]] = {}
    for check in lacking:
        key = (check.status, check.remedy) if check.remedy else (check.name,)
        groups.setdefault(key, []).append(check)
    return groups.values()
