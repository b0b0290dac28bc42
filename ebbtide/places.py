"""The folders whose content outlives a command.

The cache has fetched releases; the state folder has crash reports, ledgers and control sockets.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import platformdirs

from ebbtide.account import no_home_error


def cache_dir() -> Path:
    """Return the user's cache folder, or the one that EBBTIDE_CACHE names.

    Does not create it. Raises `HarnessError` if the user has no home folder.
    """
    override = os.environ.get("EBBTIDE_CACHE")
    return Path(override).absolute() if override else _user_folder(platformdirs.user_cache_path)


def state_dir() -> Path:
    """Return the user's folder for crash reports, ledgers and control sockets.

    Does not create it. Raises `HarnessError` if the user has no home folder.
    """
    return _user_folder(platformdirs.user_state_path)


def _user_folder(find: Callable[[str], Path]) -> Path:
    try:
        folder = find("ebbtide")
    except RuntimeError:
        raise no_home_error() from None
    if not folder.is_absolute():  # older versions of platformdirs return `~/...`
        raise no_home_error()
    return folder
