"""The folders whose content outlives a command.

The cache has fetched releases, and the state folder has crash reports.
"""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def cache_dir() -> Path:
    """Return the user's cache folder, or the one that EBBTIDE_CACHE names.

    Does not create it.
    """
    override = os.environ.get("EBBTIDE_CACHE")
    return Path(override).absolute() if override else platformdirs.user_cache_path("ebbtide")


def state_dir() -> Path:
    """Return the user's folder for crash reports; does not create it."""
    return platformdirs.user_state_path("ebbtide")
