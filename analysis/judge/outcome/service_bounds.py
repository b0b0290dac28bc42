"""Compares the time without service with the bounds that a prediction sets.

A longest time above `max` breaks the prediction only if every fault took effect: a cut that was not
healed makes an outage of the harness. A time that is only known to last at least so long breaks
`max` too if it exceeds it. Otherwise the bound is open, as it is where a partition's time is not
known. `min` asks that the run shows the outage on some partition, as `some` does of losses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ebbtide.record.outages import Service, is_measurable, outage_of
from ebbtide.record.verdict import Unavailability
from ebbtide.scenario.model import Prediction, TimeBounds

_WITHOUT: dict[Service, str] = {"no_leader": "without a leader", "no_ack": "without an ack of acks=all"}


def compare_unavailability(
    prediction: Prediction, seen: Sequence[Unavailability], unless_faulty: list[str], open_: list[str]
) -> None:
    """Add what the time without service breaks, and what it leaves open."""
    for service, bounds in _bounds_of(prediction):
        without = _WITHOUT[service]
        places = [one for one in seen if is_measurable(one, service)]
        known = [(one, found) for one in places if (found := outage_of(one, service)) is not None]
        unknown = [f"that of {one.topic}-{one.partition}: {one.unknown.get(service)}" for one in places]
        unknown = [why for one, why in zip(places, unknown, strict=True) if outage_of(one, service) is None]
        if not places:
            unknown = ["nobody waited for one"] if seen else ["the record has no partition"]
        if bounds.max is not None:
            too_long = [(one, found) for one, found in known if found.longest_s > bounds.max]
            unless_faulty += [
                f"predicted no partition {without} for more than {bounds.max:g} s, "
                f"seen {'at least ' if found.at_least else ''}{found.longest_s:.1f} s ({one.topic}-{one.partition})"
                for one, found in too_long
            ]
            unended = [(one, found) for one, found in known if found.at_least and found.longest_s <= bounds.max]
            open_ += [
                f"predicted no partition {without} for more than {bounds.max:g} s, but the record does not show "
                f"when {one.topic}-{one.partition} was served again"
                for one, _ in unended
            ]
            open_ += [f"predicted no partition {without} for more than {bounds.max:g} s: {why}" for why in unknown]
        if bounds.min is not None and not any(found.longest_s >= bounds.min for _, found in known):
            longest = max((found.longest_s for _, found in known), default=None)
            shown = f"seen {longest:.1f} s at most" if longest is not None else "none is known"
            why = "".join(f"; {one}" for one in unknown)
            open_.append(
                f"predicted a partition {without} for at least {bounds.min:g} s, {shown}: the run did not show it{why}"
            )


def unavailability_phrases(prediction: Prediction) -> Iterator[str]:
    """Yield the bounds as parts of a sentence."""
    for service, bounds in _bounds_of(prediction):
        if bounds.min is not None:
            yield f"a partition {_WITHOUT[service]} for at least {bounds.min:g} s"
        if bounds.max is not None:
            yield f"no partition {_WITHOUT[service]} for more than {bounds.max:g} s"


def _bounds_of(prediction: Prediction) -> Iterator[tuple[Service, TimeBounds]]:
    asked = prediction.unavailable_s
    if asked is not None and asked.no_leader is not None:
        yield "no_leader", asked.no_leader
    if asked is not None and asked.no_ack is not None:
        yield "no_ack", asked.no_ack
