"""Runs a command in the network namespace and environment of a cluster's clients."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from ebbtide.daemon.control import daemon_pid
from ebbtide.daemon.messages import ClusterStatus
from ebbtide.errors import EbbtideError
from ebbtide.namespaces import netns_prefix


def namespace_prefix(status: ClusterStatus) -> list[str]:
    """Return the words that run a command in the clients' network namespace only.

    A daemon in a user namespace has its own /run and namespaces, which its user can enter.
    """
    if status.powers != "user namespace":
        return netns_prefix(Path(status.namespace))
    daemon = Path("/proc", str(daemon_pid(status.name)))
    namespace = daemon / "root" / status.namespace.lstrip("/")
    return ["nsenter", f"--user={daemon}/ns/user", "--preserve-credentials", f"--net={namespace}", "--"]


def client_environment(status: ClusterStatus) -> dict[str, str]:
    """Return this environment with EBBTIDE_BOOTSTRAP, PATH and CLASSPATH set.

    PATH begins with the folder of this Python; CLASSPATH begins with the jars of the cluster's release.
    """
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
    """Return the jars of the release.

    Returns None if it was not fetched, because containers bring their own.
    """
    from cluster.jars.releases import jars_of

    try:
        return ":".join(map(str, jars_of(kafka)))
    except EbbtideError:
        return None
