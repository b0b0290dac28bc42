"""A slow disk: a volume that is frozen for a part of every period.

Each write in that part waits. The freeze (FIFREEZE) is the kernel's own: it works on every journalled file system and
in every mount namespace, and reads go on. It writes all dirty pages back first. A process of its own makes the
pulses, this module's `main`. It ends, with the volume thawed, when the harness closes its stdin or the volume is
gone.
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

from cluster.host.volumes import Volume, loop_devices_of, mounts_of
from ebbtide.command import module_command

_FIFREEZE = 0xC0045877  # _IOWR('X', 119, int), linux/fs.h
_FITHAW = 0xC0045878

_END_TIMEOUT_S = 10.0


class Slowness(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="slowness"):
    """Ledger entry: the volume of `image`, mounted at `folder`, may be frozen."""

    folder: str
    image: str
    image_identity: str = ""

    @classmethod
    def of(cls, volume: Volume) -> Slowness:
        """Return the entry of a volume."""
        return cls(folder=volume.folder, image=volume.image, image_identity=volume.image_identity)

    def undo(self) -> bool:
        """Thaw the volume, wherever it is mounted; returns True when it was frozen. Raises `OSError`."""
        points = mounts_of(self.image, self.image_identity)
        thawed = [thaw(Path(one), self.image, self.image_identity) for one in points]
        return any(thawed)

    def describe(self) -> str:
        """Return how messages name the freezing."""
        return f"freezing of {self.folder}"


def thaw(folder: Path, image: str, identity: str = "") -> bool:
    """Thaw the file system at `folder` if it is that of `image`; returns True when it was frozen.

    Raises `OSError`.
    """
    try:
        with _open_folder(folder) as handle:
            device = os.fstat(handle).st_dev
            if f"{os.major(device)}:{os.minor(device)}" not in loop_devices_of(image, identity).values():
                return False
            fcntl.ioctl(handle, _FITHAW, 0)
    except OSError as error:
        # The volume is not frozen, or was shut down or unmounted meanwhile; nothing can wait on it.
        if error.errno in (errno.EINVAL, errno.ENOENT, errno.EOPNOTSUPP):
            return False
        raise
    return True


class Pulses:
    """Freezes the volume at `folder` for `delay_s` of every `period_s`, until `end`.

    Record the ledger entry `slowness` before. Raises nothing when the kernel refuses: the disk is then not slow.
    """

    def __init__(self, slowness: Slowness, delay_s: float, period_s: float) -> None:
        self.slowness = slowness
        # Not started by `start_child`: the kernel would kill it when the harness dies, and it has to thaw first.
        self._popen = subprocess.Popen(
            [*module_command("cluster.host.slow_volume"), slowness.folder, str(delay_s), str(period_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def wait_frozen(self, within_s: float) -> bool:
        """Wait until the volume was frozen once; False when the process ended instead.

        Also False after `within_s`. Call it only once.
        """
        assert self._popen.stdout is not None
        ready, _, _ = select.select([self._popen.stdout], [], [], within_s)
        if not ready or self._popen.stdout.read(1):
            return bool(ready)
        self._popen.wait(_END_TIMEOUT_S)
        return False

    def end_status(self) -> int | None:
        """Return the exit status where the process ended by itself; None while it runs."""
        return self._popen.poll()

    def end(self) -> None:
        """End the pulses and thaw the volume."""
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._popen.stdin.close()
        self._popen.wait(_END_TIMEOUT_S)
        self._popen.stdout.close()
        self.slowness.undo()


def timed_write(folder: Path, timeout_s: float) -> float:
    """Return how long (s) writing, fsyncing and removing a small file takes now.

    It runs in a thread: no signal interrupts a write on a frozen volume. Raises `OSError`, or `TimeoutError` after
    `timeout_s`.
    """
    done: list[float | OSError] = []
    began = time.monotonic()

    def write() -> None:
        # A name of its own: an earlier write that timed out may still wait.
        probe = folder / f".ebbtide-slow-probe-{time.monotonic_ns()}"
        try:
            with probe.open("wb") as file:
                file.write(bytes(4096))
                file.flush()
                os.fsync(file.fileno())
            probe.unlink()
            # The removal is also a write, so that the time includes it.
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
    """Freeze for `delay_s` of every `period_s` until stdin ends or the volume is gone.

    One byte on stdout says that the volume was frozen for the first time. Raises `OSError`.
    """
    volume = folder.stat().st_dev
    told = over = False
    while not over:
        with _open_folder(folder) as handle:
            # Check the open folder, not the path: no other file system is ever frozen, least of all the host's.
            if os.fstat(handle).st_dev != volume:
                return
            fcntl.ioctl(handle, _FIFREEZE, 0)
            try:
                if not told:
                    told = os.write(sys.stdout.fileno(), b"\n") > 0
                over = _has_stdin_ended(delay_s)
            finally:
                fcntl.ioctl(handle, _FITHAW, 0)
        over = over or _has_stdin_ended(period_s - delay_s)


def main() -> None:
    """Run `pulse` with the arguments FOLDER DELAY_S PERIOD_S of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("delay_s", type=float)
    parser.add_argument("period_s", type=float)
    args = parser.parse_args()
    pulse(args.folder, args.delay_s, args.period_s)


def _has_stdin_ended(within_s: float) -> bool:
    """Wait up to `within_s` and return whether stdin has ended."""
    ready, _, _ = select.select([sys.stdin.fileno()], [], [], within_s)
    return bool(ready)


@contextlib.contextmanager
def _open_folder(folder: Path) -> Iterator[int]:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


if __name__ == "__main__":
    main()
