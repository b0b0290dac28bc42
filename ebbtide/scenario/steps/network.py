"""Steps that cut or slow connections between groups of nodes, and the one that heals them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Literal

from ebbtide.scenario.steps.kind import TARGET, Kind

NetworkKind = Literal["partition", "isolate", "flap", "limit-bandwidth", "heal"]

_BETWEEN = ("groups", "from", "to")
_network = partial(Kind, family="network")

NETWORK: Mapping[NetworkKind, Kind] = {
    "partition": _network(
        does="drops IP packets between groups, or one way",
        proof="a probe packet of each cut pair does not arrive, and one of every other pair does",
        takes=_BETWEEN,
        healed_by="heal",
        spends=(),
        weight=1.5,
    ),
    "isolate": _network(
        does="drops packets between a node and everyone, or those it is cut `from`",
        proof="as of a partition",
        needs=TARGET,
        takes=("from",),
        healed_by="heal",
        spends=(),
        weight=2.0,
    ),
    "flap": _network(
        does="cuts and heals in turn",
        proof="those of each cut and each heal",
        needs=("times", "period"),
        takes=_BETWEEN,
        ends_itself=True,
        spends=(),
        weight=0.5,
    ),
    "limit-bandwidth": _network(
        does="a token bucket for each pair between groups, or one way",
        proof="a transfer over each pair takes as long as the rate says, and probe packets pass",
        needs=("rate",),
        takes=_BETWEEN,
        healed_by="heal",
        host=("bandwidth limits",),
        weight=0.5,
    ),
    "heal": _network(
        does="removes every cut and limit",
        proof="a probe packet of every pair arrives, and the kernel knows no limit",
        nothing_to_end=("nothing to heal: no cut or limit is in force", "after a cut or a limit"),
        spends=(),
        weight=3.0,
    ),
}
