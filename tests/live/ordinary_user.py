"""Runs a command as a user who is not root, on a host where all that it needs may lie in root's folders.

As a program (root, in a mount namespace of its own): `ordinary_user.py GROUPS -- CMD...`. Closed folders on the
way to the checkout, the interpreter and the releases are covered by open ones that show just these.
"""

from __future__ import annotations

import ctypes
import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

USER = 65534
_ROOT = Path(__file__).resolve().parents[2]


def as_ordinary_user(*command: str, groups: Sequence[int] = ()) -> list[str]:
    """The words that run `command` as `USER` with the supplementary `groups`. An ordinary user runs it as they are."""
    if os.geteuid() != 0:
        return list(command)
    joined = ",".join(map(str, groups))
    return [
        "unshare",
        "--mount",
        "--propagation=slave",
        "--",
        sys.executable,
        str(Path(__file__).resolve()),
        joined,
        "--",
        *command,
    ]


def _open_up(needed: Sequence[Path]) -> None:
    """Make the folders `needed` reachable for everybody, in this mount namespace."""
    closed: dict[Path, list[Path]] = {}
    for path in dict.fromkeys(needed):
        for parent in reversed(path.parents):
            if not stat.S_IMODE(parent.stat().st_mode) & stat.S_IXOTH:
                closed.setdefault(parent, []).append(path)
                break
    for parent, paths in closed.items():
        handles = {path: os.open(path, os.O_PATH) for path in paths}
        _mount("tmpfs", parent, b"tmpfs", 0, b"mode=755")
        for path, handle in handles.items():
            path.mkdir(parents=True, exist_ok=True)
            _mount(f"/proc/self/fd/{handle}", path, None, 0x1000 | 0x4000, None)


def _mount(source: str, target: Path, kind: bytes | None, flags: int, data: bytes | None) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(os.fsencode(source), os.fsencode(target), kind, flags, data) != 0:
        raise OSError(ctypes.get_errno(), f"mounting {target}")


def main() -> None:
    """Prepare, become the user, become the command."""
    groups, command = sys.argv[1], sys.argv[3:]
    cache = Path(os.environ["EBBTIDE_CACHE"])
    _open_up([_ROOT, Path(sys.prefix), Path(sys.base_prefix), Path(os.environ["HOME"]), cache])
    os.setgroups([int(group) for group in groups.split(",") if group])
    os.setresgid(USER, USER, USER)
    os.setresuid(USER, USER, USER)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
