"""Says how much memory programs may still take, on a host or in a container with a limit, and who lacked it."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")


def free_memory() -> int:
    """Return the bytes that programs may still take, of the host and of the container that this may be."""
    import psutil

    return min([int(psutil.virtual_memory().available), *_free_of_container()])


def _free_of_container() -> Iterator[int]:
    """Yield what the memory limit of a container leaves (cgroups 2 or 1). The kernel can drop cached files."""
    for limit, used, cached in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "total_inactive_file"),
    ):
        with contextlib.suppress(OSError, ValueError, KeyError):  # no such file or field, or "max"
            most, taken = (int((_CGROUPS / name).read_text()) for name in (limit, used))
            stat = (_CGROUPS / limit).with_name("memory.stat").read_text()
            yield most - taken + int(dict(line.split() for line in stat.splitlines())[cached])


def how_ended(status: int | None) -> str:
    """Return how a process ended, and for SIGKILL how to see whether the kernel sent it because memory ran out.

    `status` is a `Popen.returncode` or the exit code of a shell or container; None: it has not ended.
    """
    if status is None:
        return "still running"
    how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit code {status}"
    is_killed = status in (-signal.SIGKILL, 128 + signal.SIGKILL)
    return f"{how}; did memory run out? dmesg | grep -i 'killed process'" if is_killed else how
