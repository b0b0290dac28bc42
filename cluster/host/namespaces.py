"""Network namespaces: made, entered for one call, removed. Only the network namespace is ever entered.

`ip netns exec` would give the process a mount namespace of its own, which keeps a copy of every other
node's mount and so pins volumes that a power loss has to unmount (docs/decisions/network-namespaces.md).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from ebbtide.errors import HarnessError

T = TypeVar("T")

NAMESPACES = Path("/run/netns")
"""Where the `ip netns` command looks too, so that a person can look inside a running cluster."""

_CLONE_NEWNET = 0x40000000
_MS_BIND = 4096
_MNT_DETACH = 2

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, doing: str) -> None:
    """Raise `OSError` with the errno of a libc call that returned -1."""
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{doing}: {os.strerror(number)}")


def _in_new_thread(call: Callable[[], T]) -> T:
    """Run `call` in a thread of its own, since a namespace belongs to a thread, and give back its result."""
    results: list[T] = []
    failures: list[BaseException] = []

    def body() -> None:
        try:
            results.append(call())
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=body, name="ebbtide-namespace")
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
    return results[0]


def in_namespace(path: Path, call: Callable[[], T]) -> T:
    """Run `call` with its thread inside the network namespace at `path` (a bind mount or /proc/PID/ns/net).

    Sockets that `call` opens stay in that namespace for ever. Raises `OSError` when it cannot be entered.
    """

    def entered() -> T:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _check(_libc.setns(handle, _CLONE_NEWNET), f"entering network namespace {path}")
        finally:
            os.close(handle)
        return call()

    return _in_new_thread(entered)


@contextlib.contextmanager
def inside(path: Path) -> Iterator[None]:
    """While inside, this thread, and those that it starts, are in the network namespace at `path`.

    Raises `OSError` when it cannot be entered.
    """
    with contextlib.ExitStack() as stack:
        handles = []
        for one in (path, Path("/proc/thread-self/ns/net")):
            handles.append(os.open(one, os.O_RDONLY | os.O_CLOEXEC))
            stack.callback(os.close, handles[-1])
        there, here = handles
        _check(_libc.setns(there, _CLONE_NEWNET), f"entering network namespace {path}")
        try:
            yield
        finally:
            _check(_libc.setns(here, _CLONE_NEWNET), "returning from a network namespace")


def enter(namespace: Path) -> list[str]:
    """The words before a command that make it run in the network namespace at `namespace`, and no other."""
    return ["nsenter", f"--net={namespace}", "--"]


class Namespace(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="namespace"):
    """Ledger entry: a named network namespace. What lives inside it (bridge, veth, rules) goes with it."""

    name: str

    @property
    def path(self) -> Path:
        """What `nsenter --net=` takes."""
        return NAMESPACES / self.name

    def check_free(self) -> None:
        """Raise `HarnessError` when something of this name is there already."""
        if os.path.lexists(self.path):
            raise HarnessError(
                "a network namespace of this name exists already",
                where=str(self.path),
                next="ebbtide clean    (undoes what dead runs left), or give the run another id",
            )

    def create(self) -> None:
        """Make it. Raises `FileExistsError` when the name was taken meanwhile, `OSError` without privilege."""
        NAMESPACES.mkdir(parents=True, exist_ok=True)
        os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDONLY, 0o444))

        def unshare_and_pin() -> None:
            _check(_libc.unshare(_CLONE_NEWNET), "making a network namespace")
            source, target = b"/proc/thread-self/ns/net", os.fsencode(self.path)
            _check(_libc.mount(source, target, b"none", _MS_BIND, None), f"pinning it at {self.path}")

        try:
            _in_new_thread(unshare_and_pin)
        except OSError:
            self.path.unlink()
            raise

    def undo(self) -> bool:
        """Remove it; True when it was there."""
        if not os.path.lexists(self.path):
            return False
        with contextlib.suppress(OSError):  # EINVAL: the harness died between making the file and the mount
            _check(_libc.umount2(os.fsencode(self.path), _MNT_DETACH), "unpinning")
        self.path.unlink(missing_ok=True)
        return True

    def describe(self) -> str:
        """For people."""
        return f"network namespace {self.name}"
