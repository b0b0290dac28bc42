"""Slow links: a token bucket for each limited pair, on the target's switch port.

The port's root (htb, itself unlimited) classifies packets by the sender's address. The packets of a limited sender
wait in a bucket of their own (tbf), which behaves as a slow link does: a short queue, and drops beyond it.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from cluster.host.namespaces import Cut, LimitCounts
from ebbtide.errors import HarnessError
from ebbtide.namespaces import call_in_namespace

if TYPE_CHECKING:
    from pyroute2 import IPRoute

_ROOT = 0x1_0000
_FIRST_CLASS = 2
"""A sender's class is its id plus this, which is also its bucket's handle: 0 and 1 are the root's."""
_AT_THE_ROOT = 0xFFFF_FFFF  # TC_H_ROOT
_UNLIMITED = "100gbit"
_IPV4 = 0x0800
_SOURCE_ADDRESS_AT = 12
_QUEUE_S = 0.5
_BURST_BYTES_MIN = 4096
"""Larger than a full frame; otherwise no frame would ever pass."""

_NEEDS = "a kernel with NET_SCH_HTB, NET_SCH_TBF and NET_CLS_U32 (modprobe sch_htb sch_tbf cls_u32), and root"

T = TypeVar("T")


def burst_bytes(rate_bytes_s: int) -> int:
    """Return how many bytes a bucket lets pass at once after a silence."""
    return max(_BURST_BYTES_MIN, rate_bytes_s // 100)


class Limits:
    """The limits in force in the switch's namespace at `namespace`.

    `address_of` maps a node id to its address, `port_of` to the name of its port on the switch.
    """

    def __init__(self, namespace: Path, address_of: Callable[[int], str], port_of: Callable[[int], str]) -> None:
        self._namespace = namespace
        self._address_of = address_of
        self._port_of = port_of
        self._in_force: dict[Cut, int] = {}

    def add(self, pairs: Collection[Cut], rate_bytes_s: int) -> None:
        """Limit each of `pairs` (one direction) to `rate_bytes_s`. Raises `HarnessError`."""
        targets = {pair.target for pair in pairs}
        self._in_force.update(dict.fromkeys(pairs, rate_bytes_s))
        self.apply(targets)

    def apply(self, targets: Iterable[int]) -> None:
        """Install the limits in force towards these nodes on their ports.

        They replace the limits that are installed there.
        """

        def install(routes: IPRoute) -> None:
            for target in targets:
                self._install(routes, target)

        if self._in_force:
            self._with_routes(install)

    def clear(self) -> None:
        """Remove every limit. Raises `HarnessError`."""
        targets = {pair.target for pair in self._in_force}

        def remove(routes: IPRoute) -> None:
            for target in targets:
                _remove(routes, self._port(routes, target))

        if targets:
            self._with_routes(remove)
        self._in_force.clear()

    def read_counts(self) -> Mapping[Cut, LimitCounts]:
        """Return what the kernel counts for each installed bucket."""

        def count(routes: IPRoute) -> dict[Cut, LimitCounts]:
            return dict(self._count(routes))

        return self._with_routes(count)

    def _install(self, routes: IPRoute, target: int) -> None:
        port = self._port(routes, target)
        _remove(routes, port)
        limits = {pair.source: rate for pair, rate in self._in_force.items() if pair.target == target}
        if not limits:
            return
        # Class 0 does not exist: packets that no filter matches (other senders, ARP) pass the root at once.
        routes.tc("add", "htb", port, _ROOT, default=0)
        for source, rate_bytes_s in limits.items():
            minor = source + _FIRST_CLASS
            routes.tc("add-class", "htb", port, _ROOT | minor, parent=_ROOT, rate=_UNLIMITED, burst=1 << 20)
            burst = burst_bytes(rate_bytes_s)
            routes.tc(
                "add",
                "tbf",
                port,
                minor << 16,
                parent=_ROOT | minor,
                rate=rate_bytes_s,
                burst=burst,
                limit=burst + int(rate_bytes_s * _QUEUE_S),
            )
            address = socket.inet_aton(self._address_of(source)).hex()
            routes.tc(
                "add-filter",
                "u32",
                port,
                parent=_ROOT,
                prio=1,
                protocol=_IPV4,
                target=_ROOT | minor,
                keys=[f"0x{address}/0xffffffff+{_SOURCE_ADDRESS_AT}"],
            )

    def _count(self, routes: IPRoute) -> Iterator[tuple[Cut, LimitCounts]]:
        ports = {link["index"]: link.get_attr("IFLA_IFNAME") for link in routes.get_links()}
        nodes = {self._port_of(node): node for node in range(254)}
        for one in routes.get_qdiscs():
            if one.get_attr("TCA_KIND") != "tbf" or ports.get(one["index"]) not in nodes:
                continue
            counts: Any = one.get_attr("TCA_STATS2")
            basic, queue = counts.get_attr("TCA_STATS_BASIC"), counts.get_attr("TCA_STATS_QUEUE")
            pair = Cut(source=(one["handle"] >> 16) - _FIRST_CLASS, target=nodes[ports[one["index"]]])
            yield pair, LimitCounts(passed_bytes=basic["bytes"], dropped_packets=queue["drops"])

    def _port(self, routes: IPRoute, node: int) -> int:
        port: int = routes.link_lookup(ifname=self._port_of(node))[0]
        return port

    def _with_routes(self, act: Callable[[IPRoute], T]) -> T:
        # Imported here: commands that limit no link need not pay for it.
        from pyroute2 import IPRoute
        from pyroute2.netlink.exceptions import NetlinkError

        def open_and_act() -> T:
            with IPRoute() as routes:
                return act(routes)

        try:
            return call_in_namespace(self._namespace, open_and_act)
        except NetlinkError as error:
            raise HarnessError("the kernel refused to limit a link", got=str(error), next=_NEEDS) from None


def _remove(routes: IPRoute, port: int) -> None:
    if any(one.get_attr("TCA_KIND") == "htb" for one in routes.get_qdiscs(index=port)):
        routes.tc("del", index=port, handle=_ROOT, parent=_AT_THE_ROOT)
