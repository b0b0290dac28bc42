"""What the manifest says of the machine and the client libraries."""

from __future__ import annotations

import errno
import os
import platform
import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from harness import __version__
from harness.doctor import FREE_DISK_BYTES
from harness.errors import HarnessError, UsageError
from harness.powers import held

_FULL_BYTES = 8 << 20


def client_versions() -> dict[str, str]:
    """Versions of what produced and consumed, and of this harness."""
    versions = {"ebbtide": __version__, "python": platform.python_version()}
    for name in ("kafka-python", "pyarrow"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed as a distribution"
    return versions


def host_facts() -> dict[str, str]:
    """Kernel, cores, memory and whose powers the harness had; no names or addresses of the machine."""
    return {
        "kernel": platform.release(),
        "system": platform.system(),
        "cores": str(os.cpu_count() or 0),
        "memory_gib": f"{psutil.virtual_memory().total / 2**30:.1f}",
        "powers": held(),
    }


def require_space(folder: Path) -> None:
    """Refuse a run that the disk has no room for; raises `HarnessError`."""
    existing = next(one for one in (folder.absolute(), *folder.absolute().parents) if one.exists())
    if not existing.is_dir():
        raise UsageError("records cannot be made there: it is no folder", where="--runs", got=str(existing))
    free = shutil.disk_usage(existing).free
    if free < FREE_DISK_BYTES:
        raise HarnessError(
            "too little free disk space for a run",
            where=str(existing),
            got=f"{free / 2**20:.0f} MiB free",
            allowed=f"{FREE_DISK_BYTES / 2**20:.0f} MiB or more",
            next="free some space, or name another folder with --runs DIR",
        )


def disk_is_full(error: Exception, folder: Path) -> bool:
    """Whether `error` comes from a full disk: it says so, or the disk is.

    A node or client that died of it says so in its own words, and a volume whose image cannot grow fails with an
    input/output error.
    """
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    # What a run that failed had taken may be free again by now.
    if os.strerror(errno.ENOSPC) in str(error):
        return True
    return shutil.disk_usage(folder).free < _FULL_BYTES
