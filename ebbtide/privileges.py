"""Says which privileges this process has.

They are root's own, a helper container's, or a user namespace's.

A cluster needs network namespaces, packet filter rules and loop mounts. Root may use them. A user with a Docker daemon
gets them through a privileged container (`cluster.privileges.helper_container`), and any other user gets most of them
in user namespaces (`cluster.privileges.user_namespace`). `cluster.privileges.choice` decides, and the whole command
starts itself again with these privileges, so that no other module has to ask for them.

The name and the home folder that the host has for the user of this process.

A user may have neither. `docker run -u 12345` starts a process of a user without an entry in /etc/passwd.
"""

from __future__ import annotations

import os
import pwd
import sys
from pathlib import Path
from typing import Literal

from ebbtide.errors import HarnessError

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


def account_name() -> str | None:
    """Return the name of this process's user; None if the host has no entry for the user."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return None


def home_dir() -> Path:
    """Return the user's home folder: HOME, else the one of /etc/passwd.

    Raises `HarnessError` if neither names an absolute path.
    """
    try:
        home = Path.home()
    except RuntimeError:
        raise no_home_error() from None
    if not home.is_absolute():
        raise no_home_error()
    return home


def no_home_error() -> HarnessError:
    """Return the error that says that this user has no home folder."""
    home = os.environ.get("HOME")
    return HarnessError(
        "this user has no home folder, where Ebbtide keeps Kafka's jars and its ledgers",
        where=f"user {os.geteuid()}, who is not in /etc/passwd" if account_name() is None else f"user {os.geteuid()}",
        got="HOME is not set" if home is None else f"HOME={home}",
        allowed="an absolute path",
        next="export HOME=/a/folder/that/you/may/write",
    )
