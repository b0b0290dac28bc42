"""The root side of a helper container (`helper_container`), already in the mounts of the user's process.

`python -m ebbtide.command cluster.powers.helper_inside ORDER`: runs the command with the user's own terminal,
environment and
folder, passes on the signals that come over the socket, ends it when the user's process is gone, and hands
what root made in the user's folders to the user.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from cluster.host.processes import is_alive
from cluster.powers.helper_container import Order
from ebbtide.errors import ExitCode
from ebbtide.powers import MARKER

_SYS_PIDFD_GETFD = 438
"""The same number on every architecture but alpha; glibc has a name for it from 2.36 on."""

_CLOCK_STEP_NS = 100_000_000
"""More than the kernel's clock for files lags behind."""

_libc = ctypes.CDLL(None, use_errno=True)


def main(order: Order) -> int:
    """Carry out `order`; the exit code goes over the socket."""
    began_ns = time.time_ns() - _CLOCK_STEP_NS
    try:
        process = os.pidfd_open(order.process.pid)
        if not is_alive(order.process):
            return ExitCode.HARNESS_FAILED
        control = socket.socket(fileno=_take(process, order.control))
        environment = _environment(order.process.pid)
        streams = [_take_stream(process, number) for number in (0, 1, 2)]
    except OSError as error:  # it may have died meanwhile, and then nobody wants to know
        sys.stderr.write(f"cannot take over from process {order.process.pid}: {error}\n")
        return ExitCode.HARNESS_FAILED
    child = subprocess.Popen(
        order.command,
        stdin=streams[0],
        stdout=streams[1],
        stderr=streams[2],
        env={**environment, MARKER: "helper container"},
        start_new_session=True,
    )
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _frame: child.send_signal(received))
    _follow(child, control)
    code = child.wait()
    for folder in order.folders:
        hand_over(Path(folder), order.user, order.group, began_ns)
    code = code if code >= 0 else 128 - code
    with contextlib.suppress(OSError):
        control.send(bytes([code]))
    return code


def _follow(child: subprocess.Popen[bytes], control: socket.socket) -> None:
    """Pass signals on until `child` has ended; the end of the socket is the end of the user's process."""
    with selectors.DefaultSelector() as selector:
        ended = os.pidfd_open(child.pid)
        selector.register(ended, selectors.EVENT_READ)
        selector.register(control, selectors.EVENT_READ)
        while True:
            ready = {key.fileobj for key, _ in selector.select()}
            if ended in ready:
                os.close(ended)
                return
            numbers = control.recv(16)
            for number in numbers:
                child.send_signal(number)
            if not numbers:
                selector.unregister(control)
                child.send_signal(signal.SIGTERM)


def hand_over(folder: Path, user: int, group: int, since_ns: int) -> None:
    """Give the user what root owns in `folder` and has changed since; other file systems stay as they are."""
    try:
        device = folder.stat().st_dev
    except OSError:
        return

    def give(name: str | Path, at: int | None = None) -> None:
        with contextlib.suppress(OSError):  # gone meanwhile
            status = os.stat(name, dir_fd=at, follow_symlinks=False)
            if status.st_uid == 0 and status.st_ctime_ns >= since_ns and status.st_dev == device:
                os.chown(name, user, group, dir_fd=at, follow_symlinks=False)

    give(folder)
    for _, folders, files, at in os.fwalk(folder):
        for name in (*folders, *files):
            give(name, at)
        folders[:] = [name for name in folders if _device(name, at) == device]


def _device(name: str, at: int) -> int | None:
    try:
        return os.stat(name, dir_fd=at, follow_symlinks=False).st_dev
    except OSError:
        return None


def _take_stream(process: int, number: int) -> int:
    """A copy of one of the process's standard streams; an empty one where it has closed it."""
    try:
        return _take(process, number)
    except OSError as error:
        if error.errno != errno.EBADF:
            raise
        return os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)


def _take(process: int, number: int) -> int:
    """A copy of file descriptor `number` of the process behind the pidfd `process`, closed on exec."""
    handle = int(_libc.syscall(_SYS_PIDFD_GETFD, process, number, 0))
    if handle < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"taking file descriptor {number}: {os.strerror(code)}")
    return handle


def _environment(pid: int) -> dict[str, str]:
    """The environment that the process was started with."""
    variables = os.fsdecode(Path(f"/proc/{pid}/environ").read_bytes()).split("\0")
    return {name: value for name, is_one, value in (variable.partition("=") for variable in variables) if is_one}


if __name__ == "__main__":
    sys.exit(main(msgspec.json.decode(sys.argv[1], type=Order)))
