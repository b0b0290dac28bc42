"""Steps that cut, slow or heal connections between groups of nodes."""

from __future__ import annotations

from functools import partial
from types import MappingProxyType

import msgspec

from ebbtide.scenario.steps.step import BaseStep, Kind, LinkProof, TargetStep
from ebbtide.scenario.words import Duration, Rate, Role

_network = partial(
    Kind,
    family="network",
    requires="nftables for bridges",
    undone="ledger entries `namespace`: rules live in the run's own switch and go with it",
)


SIDES_SHOWN = MappingProxyType({"from": "roles, e.g. 'controllers'", "to": "roles, e.g. 'followers(t-0)'"})
"""What stands for the keys that name one side of a connection."""


class BetweenStep(BaseStep, frozen=True, kw_only=True):
    """A step between `groups`, in both directions or one way.

    One way is `from` some nodes `to` others.
    """

    shown = MappingProxyType({"groups": "lists of roles to be cut from each other", **SIDES_SHOWN})
    groups: tuple[tuple[Role, ...], ...] = ()
    from_: tuple[Role, ...] = msgspec.field(name="from", default=())
    to: tuple[Role, ...] = ()


class PartitionStep(BetweenStep, frozen=True, kw_only=True, tag="partition"):
    """Cuts groups of nodes from each other."""

    kind = _network(
        does="drops IP packets between groups, in both directions or one way",
        proof="a probe packet of each cut pair does not arrive, and one of every other pair does",
        healed_by="heal",
        weight=1.5,
    )
    Proof = LinkProof


class IsolateStep(TargetStep, frozen=True, kw_only=True, tag="isolate"):
    """Cuts nodes from everyone, or from some."""

    kind = _network(
        does="drops packets between a node and everyone, or those it is cut `from`",
        note='`from = ["controllers"]`: no heartbeats',
        unset={"from": "everyone"},
        proof="as of a partition",
        healed_by="heal",
        weight=2.0,
    )
    Proof = LinkProof
    shown = SIDES_SHOWN
    from_: tuple[Role, ...] = msgspec.field(name="from", default=())


class FlapStep(BetweenStep, frozen=True, kw_only=True, tag="flap"):
    """Cuts and heals so many `times`, half a `period` each."""

    kind = _network(
        does="cuts and heals so many `times`, half a `period` each",
        proof="those of each cut and each heal",
        ends_itself=True,
        weight=0.5,
    )
    shown = MappingProxyType({"times": "how often, e.g. 5", "period": "how long one turn takes, e.g. '2s'"})
    times: int
    period: Duration


class LimitBandwidthStep(BetweenStep, frozen=True, kw_only=True, tag="limit-bandwidth"):
    """Lets no more than `rate` pass between nodes."""

    kind = _network(
        does="a token bucket lets no more than `rate` pass between each pair of nodes, in each direction or one way",
        proof="a transfer over each pair takes as long as the rate says, and probe packets pass",
        healed_by="heal",
        host=("bandwidth limits",),
        requires="sch_htb, sch_tbf, cls_u32",
        not_where="a kernel without them",
        undone="ledger entries `namespace`: the buckets are on the ports of the run's own switch and go with it",
        weight=0.5,
        lasts_s=3.0,
    )
    Proof = LinkProof
    rate: Rate


class HealStep(BaseStep, frozen=True, kw_only=True, tag="heal"):
    """Removes every cut and limit."""

    kind = _network(
        does="removes every cut and limit",
        proof="a probe packet of every pair arrives, and the kernel knows no limit",
        undone=None,
        nothing_to_end=("nothing to heal: no cut or limit is in force", "after a cut or a limit"),
        weight=3.0,
    )


NetworkStep = PartitionStep | IsolateStep | FlapStep | LimitBandwidthStep | HealStep
