"""A slow disk: a volume that is frozen for a while in every period, so that each write in that while waits.

Freezing (FIFREEZE) is the kernel's own, works on every journalled file system, in every mount namespace, and lets
reads go on. It writes everything back first. The pulses are the work of a process of their own, this module's
`main`, which ends with the volume thawed when the harness hangs up or the volume is gone.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import fcntl
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ebbtide.command import program

_FIFREEZE = 0xC0045877  # _IOWR('X', 119, int), linux/fs.h
_FITHAW = 0xC0045878

_END_TIMEOUT_S = 10.0


class Slowness(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="slowness"):
    """Ledger entry: the volume mounted at `folder` may be frozen."""

    folder: str

    def undo(self) -> bool:
        """Thaw it; True when it was frozen. Raises `OSError`."""
        return thaw(Path(self.folder))

    def describe(self) -> str:
        """For people."""
        return f"freezing of {self.folder}"


def thaw(folder: Path) -> bool:
    """Let writes on the file system at `folder` go on; True when they waited. Raises `OSError`."""
    try:
        with _opened(folder) as handle:
            fcntl.ioctl(handle, _FITHAW, 0)
    except OSError as error:
        # Not frozen; or shut down or unmounted meanwhile, where nothing can wait.
        if error.errno in (errno.EINVAL, errno.ENOENT, errno.EOPNOTSUPP):
            return False
        raise
    return True


class Pulses:
    """Freezes the volume at `folder` for `delay_s` of every `period_s`, until `end`.

    The ledger entry `slowness` is to be recorded before. Raises nothing when the kernel refuses: nothing is slow then.
    """

    def __init__(self, slowness: Slowness, delay_s: float, period_s: float) -> None:
        self.slowness = slowness
        # Not one of the children that the kernel kills when the harness dies: it has to thaw first.
        self._popen = subprocess.Popen(
            [*program("cluster.host.slow_volume"), slowness.folder, str(delay_s), str(period_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def froze(self, within_s: float) -> bool:
        """Whether it has frozen the volume once, waited for; false when it ended instead. To be asked once."""
        assert self._popen.stdout is not None
        ready, _, _ = select.select([self._popen.stdout], [], [], within_s)
        if not ready or self._popen.stdout.read(1):
            return bool(ready)
        self._popen.wait(_END_TIMEOUT_S)
        return False

    def ended(self) -> int | None:
        """Its exit status where it ended by itself; None while it goes on."""
        return self._popen.poll()

    def end(self) -> None:
        """End it, the volume thawed."""
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._popen.stdin.close()
        self._popen.wait(_END_TIMEOUT_S)
        self._popen.stdout.close()
        self.slowness.undo()


def timed_write(folder: Path, timeout_s: float) -> float:
    """How long (s) writing, fsyncing and removing a small file takes now. Raises `OSError` or `TimeoutError`.

    In a thread: a write on a frozen volume cannot be interrupted, by no signal.
    """
    done: list[float | OSError] = []
    began = time.monotonic()

    def write() -> None:
        # A name of its own: one that was given up may still wait.
        probe = folder / f".ebbtide-slow-probe-{time.monotonic_ns()}"
        try:
            with probe.open("wb") as file:
                file.write(bytes(4096))
                file.flush()
                os.fsync(file.fileno())
            probe.unlink()
            # Its removal is a write as well: one that waits must not go unseen.
            done.append(time.monotonic() - began)
        except OSError as error:
            done.append(error)

    writer = threading.Thread(target=write, name="ebbtide-slow-probe", daemon=True)
    writer.start()
    writer.join(timeout_s)
    if not done:
        raise TimeoutError
    if isinstance(done[0], OSError):
        raise done[0]
    return done[0]


def pulse(folder: Path, delay_s: float, period_s: float) -> None:
    """Freeze for `delay_s` of every `period_s` until stdin ends or the volume is gone. Raises `OSError`.

    A byte on stdout tells of the first time, once the volume is frozen.
    """
    volume = folder.stat().st_dev
    told = over = False
    while not over:
        with _opened(folder) as handle:
            # Of what is opened, not of the path: no other file system is ever frozen, least of all the host's.
            if os.fstat(handle).st_dev != volume:
                return
            fcntl.ioctl(handle, _FIFREEZE, 0)
            try:
                if not told:
                    told = os.write(sys.stdout.fileno(), b"\n") > 0
                over = _hung_up(delay_s)
            finally:
                fcntl.ioctl(handle, _FITHAW, 0)
        over = over or _hung_up(period_s - delay_s)


def main() -> None:
    """`python -m ebbtide.command cluster.host.slow_volume FOLDER DELAY_S PERIOD_S`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("delay_s", type=float)
    parser.add_argument("period_s", type=float)
    args = parser.parse_args()
    pulse(args.folder, args.delay_s, args.period_s)


def _hung_up(within_s: float) -> bool:
    """Whether stdin ends within that time, waited for."""
    ready, _, _ = select.select([sys.stdin.fileno()], [], [], within_s)
    return bool(ready)


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int]:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


if __name__ == "__main__":
    main()
