"""Makes and removes the network namespaces of a run."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

import msgspec

from ebbtide.errors import HarnessError
from ebbtide.namespaces import CLONE_NEWNET, call_in_thread, check_call, libc


class Cut(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """Packets from `source` to `target` are dropped, in this direction only.

    Both are node ids, or `CLIENTS`.
    """

    source: int
    target: int


class LimitCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What the kernel counted for a limited pair since it was limited.

    `passed_bytes` passed; the full queue dropped `dropped_packets`.
    """

    passed_bytes: int
    dropped_packets: int


class Transfer(msgspec.Struct, frozen=True, kw_only=True):
    """How many of the bytes that were sent at once arrived.

    The last one arrived `took_s` after the first was sent. Where not all arrived, `took_s` is the time waited.
    """

    arrived_bytes: int
    took_s: float


NAMESPACES = Path("/run/netns")
"""The folder of the `ip netns` command too, so that a person can look inside a running cluster."""

_MS_BIND = 4096
_MNT_DETACH = 2
_UMOUNT_NOFOLLOW = 8


class Namespace(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="namespace"):
    """Ledger entry: a named network namespace.

    What lives inside it (bridge, veth, rules) goes with it.
    """

    name: str

    @property
    def path(self) -> Path:
        """The path that `nsenter --net=` enters. Raises `HarnessError` for a name of no run."""
        if re.fullmatch(r"ebbtide-[A-Za-z0-9._-]+", self.name) is None:
            raise HarnessError("this is not the name of a run's network namespace", got=repr(self.name))
        return NAMESPACES / self.name

    def check_free(self) -> None:
        """Raise `HarnessError` when a namespace of this name exists already."""
        if os.path.lexists(self.path):
            raise HarnessError(
                "a network namespace of this name exists already",
                where=str(self.path),
                next="ebbtide clean    (undoes what dead runs left), or give the run another id",
            )

    def create(self) -> None:
        """Make the namespace.

        Raises `FileExistsError` when the name was taken meanwhile, `OSError` without privileges.
        """
        NAMESPACES.mkdir(parents=True, exist_ok=True)
        os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDONLY, 0o444))

        def unshare_and_pin() -> None:
            check_call(libc.unshare(CLONE_NEWNET), "making a network namespace")
            source, target = b"/proc/thread-self/ns/net", os.fsencode(self.path)
            check_call(libc.mount(source, target, b"none", _MS_BIND, None), f"pinning it at {self.path}")

        try:
            call_in_thread(unshare_and_pin)
        except OSError:
            self.path.unlink()
            raise

    def undo(self) -> bool:
        """Remove the namespace; returns True when it existed."""
        if not os.path.lexists(self.path):
            return False
        with contextlib.suppress(OSError):  # EINVAL: the harness died between making the file and the mount
            check_call(libc.umount2(os.fsencode(self.path), _MNT_DETACH | _UMOUNT_NOFOLLOW), "unpinning")
        self.path.unlink(missing_ok=True)
        return True

    def describe(self) -> str:
        """Return how messages name the namespace."""
        return f"network namespace {self.name}"
