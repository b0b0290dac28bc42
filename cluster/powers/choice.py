"""Which way a user who is not root gets the powers that a command needs, and starting it again that way."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from ebbtide.command import COMMAND
from ebbtide.errors import HarnessError
from ebbtide.powers import held, with_sudo


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What a verb needs powers for.

    `runtime`: `docker` needs a daemon, `local` must not use one, `auto` takes what is there. `needed`: without
    powers the verb cannot go on. `folders`: where it writes; what root made there is handed to the user.
    """

    runtime: Literal["auto", "docker", "local"] = "auto"
    needed: bool = True
    folders: tuple[Path, ...] = ()


def take(wish: Wish, argv: Sequence[str]) -> int | None:
    """Run `ebbtide ARGV` again with root's powers and return its exit code.

    None: go on in this process, which has them, or can do without. Raises `HarnessError` with all that is
    missing on every way, and how to mend it.
    """
    if held() != "none":
        return None
    from cluster.powers import helper_container, user_namespace

    refusals: list[HarnessError] = []
    if wish.runtime != "local":
        try:
            with helper_container.find(_say) as helper:
                _say("through a helper container of the Docker daemon, as root")
                return helper.run((*COMMAND, *argv), wish.folders)
        except helper_container.Unusable as refusal:
            refusals.append(refusal)
    if wish.runtime != "docker":
        why_not = user_namespace.why_not()
        if why_not is None:
            _say("in a user namespace of its own; it has no volumes to cut the power of, so power is lost by truncate")
            user_namespace.rerun((*COMMAND, *argv))
        refusals.append(HarnessError("no user namespaces", got=why_not, next=user_namespace.remedy()))
    if not wish.needed:
        return None
    raise HarnessError(
        "running a cluster takes root, a Docker daemon or user namespaces, and none can be had",
        where=f"user {os.geteuid()}",
        got="; ".join(refusal.what + (f" ({refusal.got})" if refusal.got else "") for refusal in refusals),
        next=f"one of: {with_sudo()}; " + "; ".join(refusal.next for refusal in refusals if refusal.next),
    )


def _say(how: str) -> None:
    # Not stdout, which may be JSON.
    sys.stderr.write(f"not root: {how}\n")
    sys.stderr.flush()
