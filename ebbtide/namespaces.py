"""Enters a network namespace, and no other kind, for one call or one block.

`ip netns exec` would also create a mount namespace. That keeps a copy of every other node's mount, and a power loss
could not unmount those volumes (docs/decisions/network-namespaces.md).
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


def call_in_thread(call: Callable[[], T]) -> T:
    """Run `call` in a new thread, because a namespace belongs to a thread.

    Return its result.
    """
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


def call_in_namespace(path: Path, call: Callable[[], T]) -> T:
    """Run `call` in a thread inside the network namespace at `path`.

    Return its result.

    `path` is a bind mount or /proc/PID/ns/net. Sockets that `call` opens stay in that namespace. Raises `OSError` if
    the namespace cannot be entered.
    """

    def call_inside() -> T:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            check_call(libc.setns(handle, CLONE_NEWNET), f"entering network namespace {path}")
        finally:
            os.close(handle)
        return call()

    return call_in_thread(call_inside)


@contextlib.contextmanager
def enter_namespace(path: Path) -> Iterator[None]:
    """Move this thread into the network namespace at `path` within the block.

    Threads that are started in the block are in the namespace too. Raises `OSError` if the
    namespace cannot be entered.
    """
    with contextlib.ExitStack() as stack:
        handles = []
        for namespace in (path, Path("/proc/thread-self/ns/net")):
            handles.append(os.open(namespace, os.O_RDONLY | os.O_CLOEXEC))
            stack.callback(os.close, handles[-1])
        there, here = handles
        check_call(libc.setns(there, CLONE_NEWNET), f"entering network namespace {path}")
        try:
            yield
        finally:
            check_call(libc.setns(here, CLONE_NEWNET), "returning from a network namespace")


def netns_prefix(namespace: Path) -> list[str]:
    """Return the words that, put before a command, run it in this network namespace."""
    return ["nsenter", f"--net={namespace}", "--"]
