"""Looks up a broker's host name, with a deadline.

The C library has none: where no DNS server answers, `getaddrinfo` waits as long as /etc/resolv.conf lets it, often half
a minute. So a thread looks the name up. While a lookup hangs, whoever asks for the same name waits for that one.
"""

from __future__ import annotations

import socket
import threading
import time

_FAMILIES = (socket.AF_INET, socket.AF_INET6)


class NameLookup:
    """One lookup of a name, in a thread of its own, without which the process may end."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._addresses: list[str] = []
        self._error: OSError | None = None
        self._thread = threading.Thread(target=self._look_up, name="ebbtide-name-lookup", daemon=True)
        self._thread.start()

    @property
    def is_going_on(self) -> bool:
        """Whether there is no answer yet."""
        return self._thread.is_alive()

    def addresses(self, timeout_s: float) -> list[str]:
        """Wait for the addresses of the name. Raises `OSError`, also where there is no answer in time."""
        self._thread.join(timeout_s)
        if self.is_going_on:
            raise OSError(
                f"no answer to the lookup of the name {self._host} within {timeout_s:.2g} s: "
                "does the DNS server answer (/etc/resolv.conf)?"
            )
        if self._error is not None:
            raise self._error
        return self._addresses

    def _look_up(self) -> None:
        try:
            found = socket.getaddrinfo(self._host, None, type=socket.SOCK_STREAM)
        except OSError as error:
            self._error = error
        except UnicodeError as error:
            self._error = OSError(f"{self._host} is not a host name ({error})")
        else:
            self._addresses = [str(address[0]) for family, *_, address in found if family in _FAMILIES]


_lookups: dict[str, NameLookup] = {}
_lock = threading.Lock()


def connect_to(host: str, port: int, timeout_s: float) -> socket.socket:
    """Return a TCP connection to a host, by name or address; name and connection together have this time.

    Raises `OSError` of the last address that was tried.
    """
    end = time.monotonic() + timeout_s
    failure: OSError | None = None
    for address in [host] if _is_address(host) else _lookup_of(host).addresses(timeout_s):
        left_s = end - time.monotonic()
        if left_s <= 0:
            failure = failure or OSError(f"no time was left to connect to {host} ({address})")
            break
        try:
            return socket.create_connection((address, port), timeout=left_s)
        except OSError as error:
            failure = error
    raise failure or OSError(f"the name {host} has no address")


def _is_address(host: str) -> bool:
    """Whether it is no name. Threads in a network namespace of their own connect only to addresses."""
    for family in _FAMILIES:
        try:
            socket.inet_pton(family, host.partition("%")[0])
        except OSError:
            continue
        return True
    return False


def _lookup_of(host: str) -> NameLookup:
    """Return the lookup of a name that goes on, or a new one."""
    with _lock:
        found = _lookups.get(host)
        if found is None or not found.is_going_on:
            found = _lookups[host] = NameLookup(host)
        return found
