"""The folders whose content outlives a command.

The cache has fetched releases; the state folder has crash reports, ledgers and control sockets. What they hold is run
and believed. So neither may belong to another user, or be writable for one. By `sudo`, root does not use the folders of
the user who called it: that user could put a jar there, and could not remove what root writes there.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import platformdirs

from ebbtide.errors import HarnessError
from ebbtide.ownership import Untrusted, check_trusted, sudo_users
from ebbtide.privileges import current_privileges, no_home_error


def cache_dir() -> Path:
    """Return the user's cache folder, or the one that EBBTIDE_CACHE names.

    Does not create it. Raises `HarnessError` if the user has no home folder, or another user may write the folder.
    """
    override = os.environ.get("EBBTIDE_CACHE")
    folder = Path(override).absolute() if override else _user_folder(platformdirs.user_cache_path)
    return _trusted(folder, "cache", "EBBTIDE_CACHE")


def state_dir() -> Path:
    """Return the user's folder for crash reports, ledgers and control sockets.

    Does not create it. Raises `HarnessError` as `cache_dir` does.
    """
    return _trusted(_user_folder(platformdirs.user_state_path), "state", "XDG_STATE_HOME")


def is_own(path: Path) -> bool:
    """Whether a file of the cache belongs to whom the cache may belong, and nobody else may write it."""
    try:
        check_trusted(path, may_be_link=True, users=_users())
    except (Untrusted, OSError):
        return False
    return True


def check_own(path: Path) -> None:
    """Raise `HarnessError` unless `is_own`."""
    _trusted(path, "cache", "EBBTIDE_CACHE")


def _users() -> frozenset[int]:
    """Return who else may own the folders: in a helper container, the user for whom it runs."""
    return sudo_users() if current_privileges() == "helper container" else frozenset()


def _trusted(folder: Path, what: str, variable: str) -> Path:
    """Return the folder; raises `HarnessError` if another user may write it, or the nearest one above that exists."""
    existing = next((one for one in (folder, *folder.parents) if os.path.lexists(one)), folder)
    try:
        check_trusted(existing, may_be_link=True, users=_users())
    except Untrusted as error:
        by_sudo = sudo_users() and current_privileges() == "root"
        raise HarnessError(
            f"another user of this host could put something into the {what} folder, which Ebbtide would run or believe",
            where=error.where,
            got=error.got,
            allowed=error.allowed,
            next="sudo -H ...    (uses root's own folders)"
            if by_sudo
            else f"export {variable}=/a/folder/of/your/own    (or: chmod go-w, if the folder is yours)",
        ) from None
    except OSError:  # a link to nothing, or a folder that this user may not enter: whoever uses it says so
        return folder
    return folder


def _user_folder(find: Callable[[str], Path]) -> Path:
    try:
        folder = find("ebbtide")
    except RuntimeError:
        raise no_home_error() from None
    if not folder.is_absolute():  # older versions of platformdirs return `~/...`
        raise no_home_error()
    return folder
