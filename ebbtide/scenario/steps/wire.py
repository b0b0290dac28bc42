"""Steps that set a rule at a wire proxy, or end it.

A rule takes effect when a matching request passes.
"""

from __future__ import annotations

from functools import partial
from types import MappingProxyType
from typing import Literal

from ebbtide.scenario.steps.step import Kind, MaybeTargetStep, StepProof, TargetStep
from ebbtide.scenario.words import Duration, Role

_rule = partial(
    Kind,
    family="wire",
    healed_by="release",
    host=("wire proxies",),
    requires="nftables with NAT",
    undone="the proxies end with the harness: ledger entries `process`",
    unset={"to": "everyone", "direction": "request", "times": "all"},
    lasts_s=0.5,
)


class RuleStep(TargetStep, frozen=True, kw_only=True):
    """A rule for requests of `api` that the target sends `to` some node, or to any.

    It applies to the first `times` requests, or to all.
    """

    shown = MappingProxyType(
        {
            "api": "a Kafka API, e.g. 'AlterPartition'",
            "to": "the roles that get the requests, e.g. 'followers(t-0)'",
            "times": "how many requests, e.g. 5",
        }
    )
    api: str
    to: tuple[Role, ...] = ()
    times: int | None = None


class DirectedRuleStep(RuleStep, frozen=True, kw_only=True):
    """A rule for requests, or for the answers to them."""

    direction: Literal["request", "response"] | None = None


class HoldRequestStep(DirectedRuleStep, frozen=True, kw_only=True, tag="hold-request"):
    """Stops requests, or their answers, at a proxy.

    `late`: a held request goes on at the release even if its sender has closed the connection, as a packet does that
    was long under way.
    """

    kind = _rule(
        does="stops requests of one Kafka API, or the answers to them, at a proxy in the node's namespace",
        proof="the first request that is held",
        stops_requests=True,
        withholds=True,
        weight=1.2,
        unset={**_rule.keywords["unset"], "late": "a held request ends with its connection"},
    )
    shown = MappingProxyType(
        {**RuleStep.shown, "late": "a held request goes on even if its sender has closed the connection"}
    )
    late: bool | None = None


class DelayRequestStep(DirectedRuleStep, frozen=True, kw_only=True, tag="delay-request"):
    """Delays requests, or their answers, by `delay`."""

    kind = _rule(
        does="lets requests of one Kafka API, or the answers to them, go on `delay` later",
        proof="the first request that went on that late, and the measured delays",
        stops_requests=True,
        withholds=True,
        weight=0.6,
        drawn={"delay": ("200ms", "1s", "2500ms")},
    )
    delay: Duration


class DropRequestStep(DirectedRuleStep, frozen=True, kw_only=True, tag="drop-request"):
    """Closes the connection of requests, or of their answers."""

    kind = _rule(
        does="closes the connection of requests of one Kafka API, or of the answers, instead of passing them on",
        proof="the first connection that was closed for such a request",
        withholds=True,
        weight=0.6,
    )


class DuplicateRequestStep(RuleStep, frozen=True, kw_only=True, tag="duplicate-request"):
    """Sends requests twice."""

    kind = _rule(
        does="sends requests of one Kafka API twice in a row; the answer to the second ends at the proxy",
        proof="the first answer to a repeated request: the peer took it for a second request",
        weight=0.5,
    )

    class Proof(StepProof, frozen=True, kw_only=True):
        """How many requests were answered twice."""

        answered_twice: int | None = None


class ReleaseStep(MaybeTargetStep, frozen=True, kw_only=True, tag="release"):
    """Lets go what is held, there or everywhere, and ends the rules."""

    kind = Kind(
        family="wire",
        does="lets the held requests go on, in order, and ends the rules",
        unset={"target": "everyone"},
        proof="bytes that were held went on; without a hold, the proxies ended the rules",
        nothing_to_end=(
            "nothing to release: no rule is in force",
            "after a hold-request, delay-request, drop-request or duplicate-request",
        ),
        weight=3.0,
        lasts_s=2.0,
    )


WireStep = HoldRequestStep | DelayRequestStep | DropRequestStep | DuplicateRequestStep | ReleaseStep
