"""Folders in folders, deeper than a path may be long."""

from __future__ import annotations

import os
from pathlib import Path


def nest(folder: Path, depth: int) -> Path:
    """Make `depth` folders, one in the other, with a file in the last."""
    folder.mkdir(parents=True, exist_ok=True)
    at = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=at)
        inner = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=at))
    os.close(at)
    return folder
