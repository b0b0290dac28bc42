"""Steps that arm a rule at a wire proxy, which takes effect when a request comes by that it is about; and their end."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Literal

from ebbtide.scenario.steps.kind import TARGET, Kind

WireKind = Literal["hold-request", "delay-request", "drop-request", "duplicate-request", "release"]

_rule = partial(
    Kind,
    family="wire",
    needs=("target", "api"),
    takes=("to", "direction", "times"),
    healed_by="release",
    host=("wire proxies",),
)

WIRE: Mapping[WireKind, Kind] = {
    "hold-request": _rule(
        does="stops requests of one Kafka API, or the answers to them, at a proxy in the node's namespace",
        proof="the first one that is held: none, no proof",
        stops_requests=True,
        withholds=True,
        weight=1.2,
    ),
    "delay-request": _rule(
        does="lets requests of one Kafka API, or the answers to them, go on later",
        proof="the first one that went on so late, and the delays measured",
        needs=("target", "api", "delay"),
        stops_requests=True,
        withholds=True,
        weight=0.6,
    ),
    "drop-request": _rule(
        does="closes the connection of requests of one Kafka API, or of the answers, instead of passing them on",
        proof="the first connection closed for one",
        withholds=True,
        weight=0.6,
    ),
    "duplicate-request": _rule(
        does="sends requests of one Kafka API twice in a row; the answer to the second ends at the proxy",
        proof="the first answer to a second one: the peer took it for a request of its own",
        takes=("to", "times"),
        weight=0.5,
    ),
    "release": Kind(
        family="wire",
        does="lets what is held go, in order, and ends the rules",
        proof="bytes that were held went on; without a hold, the proxies ended the rules",
        takes=TARGET,
        nothing_to_end=(
            "nothing to release: no rule is in force",
            "after a hold-request, delay-request, drop-request or duplicate-request",
        ),
        weight=3.0,
    ),
}
