"""The root side of a helper container, in the mounts of the user's process.

`python -m ebbtide.command cluster.privileges.helper_inside ORDER` (`helper_container` starts it). It runs the command
with the user's own terminal, environment and folder, and forwards the signals that come over the socket. It ends the
command when the user's process is gone, and hands the files that root created in the user's folders to the user.
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
from cluster.privileges.helper_container import NO_BYTECODE, Order
from ebbtide.errors import ExitCode
from ebbtide.privileges import PRIVILEGES_VARIABLE
from ebbtide.signals import exit_code_of

_SYS_PIDFD_GETFD = 438
"""The same number on every architecture except alpha; glibc has a wrapper for it from 2.36 on."""

_CLOCK_STEP_NS = 100_000_000
"""More than the lag of the kernel's clock for file times."""

_libc = ctypes.CDLL(None, use_errno=True)


def main(order: Order) -> int:
    """Carry out `order`, and send the exit code over the socket."""
    began_ns = time.time_ns() - _CLOCK_STEP_NS
    try:
        process = os.pidfd_open(order.process.pid)
        if not is_alive(order.process):
            return ExitCode.HARNESS_FAILED
        control = socket.socket(fileno=_copy_descriptor(process, order.control))
        environment = _environment_of(order.process.pid)
        streams = [_copy_stream(process, number) for number in (0, 1, 2)]
    except OSError as error:  # the user's process may have died meanwhile, and then nobody reads this
        sys.stderr.write(f"cannot take over from process {order.process.pid}: {error}\n")
        return ExitCode.HARNESS_FAILED
    child = subprocess.Popen(
        order.command,
        stdin=streams[0],
        stdout=streams[1],
        stderr=streams[2],
        # As sudo does: root acts for this user, who owns the folder of the records.
        env={**environment, **NO_BYTECODE, PRIVILEGES_VARIABLE: "helper container", "SUDO_UID": str(order.user)},
        start_new_session=True,
    )
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _frame: child.send_signal(received))
    _forward_signals_until_exit(child, control)
    code = child.wait()
    for folder in order.folders:
        hand_over(Path(folder), order.user, order.group, began_ns)
    code = exit_code_of(code, ExitCode.HARNESS_FAILED)
    with contextlib.suppress(OSError):
        control.send(bytes([code]))
    return code


def _forward_signals_until_exit(child: subprocess.Popen[bytes], control: socket.socket) -> None:
    """Forward signals to `child` until it has ended.

    The end of the socket is the end of the user's process: `child` then gets a SIGTERM.
    """
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
    """Give the user what root owns in `folder` and has changed since `since_ns`.

    `since_ns` is nanoseconds since the epoch. Other file systems below the folder stay as they are.
    """
    try:
        device = folder.stat().st_dev
    except OSError:
        return

    def give(name: str | Path, at: int | None = None) -> None:
        with contextlib.suppress(OSError):  # the file is gone meanwhile
            status = os.stat(name, dir_fd=at, follow_symlinks=False)
            if status.st_uid == 0 and status.st_ctime_ns >= since_ns and status.st_dev == device:
                os.chown(name, user, group, dir_fd=at, follow_symlinks=False)

    give(folder)
    with contextlib.suppress(RecursionError):  # nobody needs what the user nested a thousand folders deep
        for _, folders, files, at in os.fwalk(folder):
            for name in (*folders, *files):
                give(name, at)
            folders[:] = [name for name in folders if _device_of(name, at) == device]


def _device_of(name: str, at: int) -> int | None:
    try:
        return os.stat(name, dir_fd=at, follow_symlinks=False).st_dev
    except OSError:
        return None


def _copy_stream(process: int, number: int) -> int:
    """Copy a standard stream of the process; an empty stream where it closed its own."""
    try:
        return _copy_descriptor(process, number)
    except OSError as error:
        if error.errno != errno.EBADF:
            raise
        return os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)


def _copy_descriptor(process: int, number: int) -> int:
    """Copy file descriptor `number` of the process behind the pidfd `process`.

    The copy is closed on exec. Raises `OSError`.
    """
    handle = int(_libc.syscall(_SYS_PIDFD_GETFD, process, number, 0))
    if handle < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"taking file descriptor {number}: {os.strerror(code)}")
    return handle


def _environment_of(pid: int) -> dict[str, str]:
    """Return the environment that the process was started with."""
    variables = os.fsdecode(Path(f"/proc/{pid}/environ").read_bytes()).split("\0")
    return {name: value for name, is_one, value in (variable.partition("=") for variable in variables) if is_one}


if __name__ == "__main__":
    sys.exit(main(msgspec.json.decode(sys.argv[1], type=Order)))
