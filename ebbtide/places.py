"""Where Ebbtide keeps what outlives a command: fetched releases (cache) and crash reports (state)."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def cache_dir() -> Path:
    """The per-user cache; the environment variable EBBTIDE_CACHE names another folder. Not created here."""
    override = os.environ.get("EBBTIDE_CACHE")
    return Path(override).absolute() if override else platformdirs.user_cache_path("ebbtide")


def state_dir() -> Path:
    """The per-user folder for crash reports. Not created here."""
    return platformdirs.user_state_path("ebbtide")
