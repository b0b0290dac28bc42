"""One-way cuts: packet filter rules with counters, in the switch's namespace.

Only IP packets are dropped. ARP keeps passing, for two reasons: a cut in one direction leaves the other direction
whole, and a heal works at once instead of waiting for a new ARP exchange.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from cluster.host.namespaces import Cut
from ebbtide.errors import HarnessError
from ebbtide.namespaces import netns_prefix


def nft(namespace: Path, words: Sequence[str], script: str = "", *, needs: str) -> bytes:
    """Run `nft` with these words in `namespace` and return its output.

    `script` is its input. Raises `HarnessError` where nft is missing or the kernel refuses; `needs` is then the
    advice.
    """
    if shutil.which("nft") is None:
        raise HarnessError("the command nft is missing", next="apt-get install nftables")
    result = subprocess.run(
        [*netns_prefix(namespace), "nft", *words], input=script.encode(), capture_output=True, check=False
    )
    if result.returncode != 0:
        raise HarnessError(
            "the packet filter refused a rule",
            where=f"nft in {namespace}",
            got=result.stderr.decode(errors="replace").strip(),
            next=needs,
        )
    return result.stdout


_TABLE = "bridge ebbtide"
_CHAIN = f"{_TABLE} cuts"
_NEEDS = "a kernel with nf_tables for bridges (NF_TABLES_BRIDGE), and root"


class CutRules:
    """The cuts in force in the switch's namespace at `namespace`.

    `address_of` maps a node id to its address.
    """

    def __init__(self, namespace: Path, address_of: Callable[[int], str]) -> None:
        self._namespace = namespace
        self._address_of = address_of
        self._in_force: set[Cut] = set()

    def install(self) -> None:
        """Make the empty rule set. Raises `HarnessError` without nft or privileges."""
        self._apply(f"add table {_TABLE}\nadd chain {_CHAIN} {{ type filter hook forward priority 0; }}\n")

    def add(self, cuts: Iterable[Cut]) -> None:
        """Put the new ones of `cuts` in force, all in one transaction."""
        new = sorted(set(cuts) - self._in_force)
        if not new:
            return
        rules = [
            f"add rule {_CHAIN} ip saddr {self._address_of(cut.source)} ip daddr {self._address_of(cut.target)} "
            f'counter drop comment "{cut.source}>{cut.target}"\n'
            for cut in new
        ]
        self._apply("".join(rules))
        self._in_force.update(new)

    def clear(self) -> None:
        """Remove every cut, all in one transaction."""
        self._apply(f"flush chain {_CHAIN}\n")
        self._in_force.clear()

    def dropped_packets(self) -> dict[Cut, int]:
        """Return how many packets each cut in force has dropped, as the kernel counts."""
        listing = msgspec.json.decode(
            nft(self._namespace, ["-j", "list", "chain", *_CHAIN.split()], needs=_NEEDS), type=_NftListing
        )
        return dict(_cut_and_count(item.rule) for item in listing.nftables if item.rule is not None)

    def _apply(self, script: str) -> None:
        """Run the lines of `script` as one transaction."""
        nft(self._namespace, ["-f", "-"], script, needs=_NEEDS)


class _Rule(msgspec.Struct):
    comment: str
    expr: list[dict[str, Any]]


class _Item(msgspec.Struct):
    rule: _Rule | None = None


class _NftListing(msgspec.Struct):
    """The output of `nft -j`, as far as it is used here (libnftables-json)."""

    nftables: list[_Item]


def _cut_and_count(rule: _Rule) -> tuple[Cut, int]:
    source, target = rule.comment.split(">")
    packets = next(int(part["counter"]["packets"]) for part in rule.expr if "counter" in part)
    return Cut(source=int(source), target=int(target)), packets
