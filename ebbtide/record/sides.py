"""The sides between which a step cut or limited connections."""

from __future__ import annotations

import re

import msgspec

from ebbtide.scenario.roles import CLIENTS

_BETWEEN = re.compile(r" [|>] ")
_NODE = re.compile(r"\b(?:broker|controller)-(\d+)\b|\bclients\b")


class CutSides(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes of each side; `CLIENTS` stands for the clients. `one_way`: only from the first side to the second."""

    nodes: tuple[tuple[int, ...], ...]
    one_way: bool = False


def sides_in_words(whom: str) -> CutSides:
    """Return the sides that an older record has in words only: `broker-1 | broker-2, clients`."""
    return CutSides(
        nodes=tuple(tuple(int(node or CLIENTS) for node in _NODE.findall(side)) for side in _BETWEEN.split(whom)),
        one_way=" > " in whom,
    )
