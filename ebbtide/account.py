"""The name and the home folder that the host has for the user of this process.

A user may have neither. `docker run -u 12345` starts a process of a user without an entry in /etc/passwd.
"""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from ebbtide.errors import HarnessError


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
