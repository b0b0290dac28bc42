"""Root's powers for a user who is not root: the whole command is run again with them, so that nothing else has to know.

A cluster takes network namespaces, packet filter rules and loop mounts. Root has these powers; a user with a
Docker daemon has them through a privileged container (`helper_container`); any other user has most of them in
namespaces of their own (`user_namespace`). `choice` decides, and the command starts itself again.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Literal

Powers = Literal["root", "helper container", "user namespace", "none"]
"""Whose powers a process has. In a user namespace root may not mount block devices nor set the host's sysctls."""

MARKER = "EBBTIDE_POWERS"
"""Environment variable: the powers that a command was started again with, so that it happens once."""


def with_sudo(arguments: str = "...") -> str:
    """The command as root: by its path, since sudo looks for none in a virtual environment."""
    beside = Path(sys.executable).with_name("ebbtide")
    return f"sudo {beside if beside.is_file() else 'ebbtide'} {arguments}"


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
