"""How a command gets where a cluster's clients are: the words before it, and its environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from ebbtide.daemon.control import owner_pid
from ebbtide.daemon.messages import ClusterStatus
from ebbtide.errors import EbbtideError
from ebbtide.namespaces import enter


def prefix(status: ClusterStatus) -> list[str]:
    """The words before a command that make it run in the clients' network namespace; only that is entered.

    An owner in a user namespace has a /run and namespaces of its own, which its user may enter.
    """
    if status.powers != "user namespace":
        return enter(Path(status.namespace))
    owner = Path("/proc", str(owner_pid(status.name)))
    namespace = owner / "root" / status.namespace.lstrip("/")
    return ["nsenter", f"--user={owner}/ns/user", "--preserve-credentials", f"--net={namespace}", "--"]


def environment(status: ClusterStatus) -> dict[str, str]:
    """This process's, with EBBTIDE_BOOTSTRAP, this Python first in PATH, and the release's jars in CLASSPATH."""
    found: Mapping[str, str] = os.environ
    here = str(Path(sys.executable).parent)
    changed = {
        "EBBTIDE_BOOTSTRAP": ",".join(status.bootstrap),
        "PATH": f"{here}:{found.get('PATH', os.defpath)}",
    }
    jars = _class_path(status.kafka)
    if jars is not None:
        changed["CLASSPATH"] = ":".join(filter(None, (jars, found.get("CLASSPATH"))))
    return {**found, **changed}


def _class_path(kafka: str) -> str | None:
    """None where the release was not fetched: containers bring their own."""
    from cluster.jars.releases import jars_of

    try:
        return ":".join(map(str, jars_of(kafka)))
    except EbbtideError:
        return None
