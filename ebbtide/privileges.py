"""Says which privileges this process has.

They are root's own, a helper container's, or a user namespace's.

A cluster needs network namespaces, packet filter rules and loop mounts. Root may use them. A user with a Docker daemon
gets them through a privileged container (`cluster.privileges.helper_container`), and any other user gets most of them
in user namespaces (`cluster.privileges.user_namespace`). `cluster.privileges.choice` decides, and the whole command
starts itself again with these privileges, so that no other module has to ask for them.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Literal

Privileges = Literal["root", "helper container", "user namespace", "none"]
"""Root in a user namespace may neither mount block devices nor set the host's sysctls."""

PRIVILEGES_VARIABLE = "EBBTIDE_PRIVILEGES"
"""Environment variable that names the privileges with which the command started itself again."""


def sudo_command(arguments: str = "...") -> str:
    """Return the command line that runs `ebbtide` as root.

    It names the command by its path, because sudo does not search virtual environments.
    """
    beside_python = Path(sys.executable).with_name("ebbtide")
    return f"sudo {beside_python if beside_python.is_file() else 'ebbtide'} {arguments}"


def current_privileges() -> Privileges:
    """Return the privileges of this process."""
    if os.geteuid() != 0:
        return "none"
    match os.environ.get(PRIVILEGES_VARIABLE):
        case "helper container":
            return "helper container"
        case "user namespace":
            return "user namespace"
        case _:
            return "root"
