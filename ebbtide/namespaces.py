"""Enters a network namespace, for one call or one block. No other kind of namespace is entered.

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

T = TypeVar("T")

CLONE_NEWNET = 0x40000000

libc = ctypes.CDLL(None, use_errno=True)


def check_call(result: int, doing: str) -> None:
    """Raise `OSError` with the errno of a libc call that returned -1."""
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{doing}: {os.strerror(number)}")


def in_new_thread(call: Callable[[], T]) -> T:
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
            check_call(libc.setns(handle, CLONE_NEWNET), f"entering network namespace {path}")
        finally:
            os.close(handle)
        return call()

    return in_new_thread(entered)


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
        check_call(libc.setns(there, CLONE_NEWNET), f"entering network namespace {path}")
        try:
            yield
        finally:
            check_call(libc.setns(here, CLONE_NEWNET), "returning from a network namespace")


def enter(namespace: Path) -> list[str]:
    """The words before a command that make it run in the network namespace at `namespace`, and no other."""
    return ["nsenter", f"--net={namespace}", "--"]
