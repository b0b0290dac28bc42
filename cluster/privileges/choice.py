"""Chooses how a user who is not root gets privileges, and runs the command again."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from ebbtide.command import COMMAND
from ebbtide.errors import HarnessError
from ebbtide.privileges import current_privileges, sudo_command


class PrivilegeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Why a verb needs privileges, and where it writes.

    `runtime`: `docker` needs a daemon, `local` must not use a daemon, `auto` uses whichever is available. `needed`:
    the verb cannot continue without privileges. `folders`: the folders that the verb writes to; files that root creates
    there are handed to the user.
    """

    runtime: Literal["auto", "docker", "local"] = "auto"
    needed: bool = True
    folders: tuple[Path, ...] = ()


def rerun_with_privileges(request: PrivilegeRequest, argv: Sequence[str]) -> int | None:
    """Run `ebbtide ARGV` again with root's privileges and return its exit code.

    Returns None if this process continues: it has the privileges already, or the verb can do without them. Raises
    `HarnessError` with everything that is missing on each way, and how to fix it.
    """
    if current_privileges() != "none":
        return None
    from cluster.privileges import helper_container, user_namespace

    refusals: list[HarnessError] = []
    if request.runtime != "local":
        try:
            with helper_container.open_helper(_print_choice) as helper:
                _print_choice("through a helper container of the Docker daemon, as root")
                return helper.run((*COMMAND, *argv), request.folders)
        except helper_container.Unusable as refusal:
            refusals.append(refusal)
    if request.runtime != "docker":
        why_not = user_namespace.why_unavailable()
        if why_not is None:
            for why in refusals:
                # Without a daemon, nobody expects its help.
                if not isinstance(why, helper_container.NoDaemon):
                    _print_choice(f"not through the Docker daemon: {why.as_clause()}")
            _print_choice("in a user namespace of its own; it cannot mount volumes, so power is lost by truncate")
            user_namespace.rerun((*COMMAND, *argv))
        refusals.append(HarnessError("no user namespaces", got=why_not, next=user_namespace.remedy()))
    if not request.needed:
        return None
    raise HarnessError(
        "a cluster needs root, a Docker daemon or user namespaces, and none is available",
        where=f"user {os.geteuid()}",
        got="; ".join(refusal.what + (f" ({refusal.got})" if refusal.got else "") for refusal in refusals),
        next=f"one of: {sudo_command()}; " + "; ".join(refusal.next for refusal in refusals if refusal.next),
    )


def _print_choice(how: str) -> None:
    # Not stdout, which may be JSON.
    sys.stderr.write(f"not root: {how}\n")
    sys.stderr.flush()
