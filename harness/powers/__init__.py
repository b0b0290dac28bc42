"""Root's powers for a user who is not root: the whole command is run again with them, so that nothing else has to know.

A cluster takes network namespaces, packet filter rules and loop mounts. Root has these powers; a user with a
Docker daemon has them through a privileged container (`helper_container`); any other user has most of them in
namespaces of their own (`user_namespace`). `choice` decides, and the command starts itself again.
"""

from __future__ import annotations

import os
from typing import Literal

Powers = Literal["root", "helper container", "user namespace", "none"]
"""Whose powers a process has. In a user namespace root may not mount block devices nor set the host's sysctls."""

MARKER = "EBBTIDE_POWERS"
"""Environment variable: the powers that a command was started again with, so that it happens once."""


def held() -> Powers:
    """The powers of this process."""
    if os.geteuid() != 0:
        return "none"
    match os.environ.get(MARKER):
        case "helper container":
            return "helper container"
        case "user namespace":
            return "user namespace"
        case _:
            return "root"
