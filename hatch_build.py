"""Bakes the git commit into wheels and source archives, as ebbtide/_commit.txt. `ebbtide --version` shows it."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BAKED = "ebbtide/_commit.txt"


class CommitHook(BuildHookInterface):
    """Adds the file, if this is a checkout and git can say its commit. A source archive has the file already."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable" or not (Path(self.root) / ".git").exists():
            return
        # As ebbtide.version asks, which cannot be imported here.
        asked = ("git", "-C", self.root, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
        try:
            done = subprocess.run(asked, capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            return
        handle, self._written = tempfile.mkstemp()
        with os.fdopen(handle, "w") as file:
            file.write(done.stdout)
        build_data["force_include"][self._written] = BAKED

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if written := getattr(self, "_written", None):
            os.unlink(written)
