"""Which Ebbtide this is: its version, and the git commit that it was built from."""

from __future__ import annotations

import subprocess
from pathlib import Path

from ebbtide import __version__

_PACKAGE = Path(__file__).parent


def version_text(package: Path = _PACKAGE) -> str:
    """The version, and the commit if it is known: `0.1.0 (1a2b3c4d5e6f)`."""
    commit = commit_of(package)
    return f"{__version__} ({commit})" if commit else __version__


def commit_of(package: Path) -> str | None:
    """The commit that a wheel was built from, or that a checkout is at.

    It ends in `-dirty` if a checkout has changed files.

    A wheel has it in a file, which hatch_build.py writes. A checkout asks git. None if neither knows.
    """
    baked = package / "_commit.txt"
    if baked.is_file():
        return baked.read_text("utf-8").strip()
    # Only Ebbtide's own repository counts, not one around the environment that it is installed in.
    if not (package.parent / ".git").exists():
        return None
    asked = ("git", "-C", str(package.parent), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
    try:
        return subprocess.run(asked, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
