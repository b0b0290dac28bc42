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


class BetweenStep(BaseStep, frozen=True, kw_only=True):
    """A step between `groups`, in both directions or one way.

    One way is `from` some nodes `to` others.
    """

    shown = MappingProxyType(
        {"groups": "lists of roles", "from": "senders, e.g. 'controllers'", "to": "receivers, e.g. 'followers(t-0)'"}
    )
    groups: tuple[tuple[Role, ...], ...] = ()
    from_: tuple[Role, ...] = msgspec.field(name="from", default=())
    to: tuple[Role, ...] = ()


class PartitionStep(BetweenStep, frozen=True, kw_only=True, tag="partition"):
    """Cuts groups of nodes from each other."""

    kind = _network(
        does="drops every packet between groups of nodes, in both directions or one way",
        proof="a probe packet of each cut pair does not arrive, and one of every other pair does",
        healed_by="heal",
        weight=1.5,
    )
    Proof = LinkProof


class IsolateStep(TargetStep, frozen=True, kw_only=True, tag="isolate"):
    """Cuts nodes from everyone, or from some."""

    kind = _network(
        does="drops every packet between a node and everyone, or only the roles in `from`",
        note='`from = ["controllers"]`: no heartbeats',
        unset={"from": "everyone"},
        proof="that of a partition",
        healed_by="heal",
        weight=2.0,
    )
    Proof = LinkProof
    shown = MappingProxyType({"from": "the roles on the other side, e.g. 'controllers'"})
    from_: tuple[Role, ...] = msgspec.field(name="from", default=())


class FlapStep(BetweenStep, frozen=True, kw_only=True, tag="flap"):
    """Cuts and heals so many `times`, half a `period` each."""

    kind = _network(
        does="cuts the connections between groups and heals them, several `times`; each takes half a `period`",
        proof="the proofs of each cut and each heal",
        ends_itself=True,
        weight=0.5,
    )
    shown = MappingProxyType({"times": "how often, e.g. 5", "period": "how long a cut and its heal take, e.g. '2s'"})
    times: int
    period: Duration


class LimitBandwidthStep(BetweenStep, frozen=True, kw_only=True, tag="limit-bandwidth"):
    """Lets no more than `rate` pass between nodes."""

    kind = _network(
        does="lets no more than `rate` pass between each two nodes of different groups, in each direction or one way",
        proof="a transfer between each two nodes takes as long as the rate says, and probe packets arrive",
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
