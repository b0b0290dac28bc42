"""The lines of advice for a group of topics: each event, and what it loses by acks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import msgspec

from analysis.advise.answers import EventAnswer, ModelDesk
from analysis.advise.events import (
    IN_SYNC,
    LIKELIHOODS,
    WORST,
    AdvisedEvent,
    When,
    disks_event,
    fixed_events,
    power_event,
    tolerance,
)
from analysis.advise.groups import TopicGroup

_ON_ITS_WAY = EventAnswer(
    says="unknown", within="no broker answers a send with acks=0; what is on its way to a leader that goes may be lost"
)
_AS_ACKS_1 = EventAnswer(says="loses", within="what loses a record with acks=1 loses one with acks=0")


class AdviceLine(msgspec.Struct, frozen=True, kw_only=True):
    """One event, and what the model says of it for acks=1 and acks=all.

    acks=0 is no question to the model, because no broker answers such a send.
    """

    event: AdvisedEvent
    acks_1: EventAnswer
    acks_all: EventAnswer

    @property
    def acks_0(self) -> EventAnswer:
        """What is lost with acks=0: what acks=1 loses, and maybe more."""
        return _AS_ACKS_1 if self.acks_1.says == "loses" else _ON_ITS_WAY

    @property
    def badness(self) -> tuple[int, int]:
        """The order of lines: what loses most comes first, then what is most likely."""
        loses = 0 if self.acks_all.says == "loses" else 1 if self.acks_all.says == "unknown" else 2
        if loses == 2 and self.acks_1.says != "loses":
            loses = 3
        return loses, LIKELIHOODS.index(self.event.likelihood)


def lines_for(group: TopicGroup, desk: ModelDesk) -> list[AdviceLine]:
    """Return the lines of a group, the worst and likeliest first."""
    lines = {line.event.key: line for line in _lines(group, desk)}
    return sorted(lines.values(), key=lambda line: line.badness)


def _lines(group: TopicGroup, desk: ModelDesk) -> Iterator[AdviceLine]:
    by_key: dict[str, AdviceLine] = {}
    for event in (*_power_events(group, desk), *_disks_events(group, desk)):
        by_key[event.key] = line_for(event, group, desk)
        yield by_key[event.key]
    for event in fixed_events(group, desk.release):
        if event.only_beyond is not None:
            weaker = by_key.get(event.only_beyond)
            if weaker is None or weaker.acks_all.says != "survives":
                continue
        line = by_key[event.key] = line_for(event, group, desk)
        yield line


def line_for(event: AdvisedEvent, group: TopicGroup, desk: ModelDesk) -> AdviceLine:
    """Return the line of an event."""
    return AdviceLine(event=event, acks_1=desk.answer(event, group, "1"), acks_all=desk.answer(event, group, "all"))


def _power_events(group: TopicGroup, desk: ModelDesk) -> Iterator[AdvisedEvent]:
    """Yield the power losses that matter: one, the most that survive, the fewest that lose, and a rack."""
    settings, rf = group.settings, group.settings.rf
    whens: tuple[When, ...] = (IN_SYNC, WORST) if rf > 1 else (IN_SYNC,)
    for when in whens:
        event = partial(power_event, when=when, group=group)
        beyond = settings.effective_min_isr if desk.release.is_elr_on else 1
        hint = rf if when == IN_SYNC or settings.flushes_each_record else beyond
        counts = _counts(event, 1, hint, group, desk)
        if when == IN_SYNC or not counts or desk.release.refuses_acks_all(rf, settings.min_isr):
            counts.add(1)
        yield from map(event, sorted(counts))
    if group.rack_replicas and rf > 1:
        yield power_event(group.rack_replicas, IN_SYNC, group, rack=True)


def _disks_events(group: TopicGroup, desk: ModelDesk) -> Iterator[AdvisedEvent]:
    """Yield the empty disks that matter: the most that survive, the fewest that lose, and those of a rack."""
    rf = group.settings.rf
    if rf == 1:
        return
    event = partial(disks_event, group=group)
    yield from map(event, sorted(_counts(event, 2, rf, group, desk) or {rf}))
    if group.rack_replicas:
        yield disks_event(group.rack_replicas, group, rack=True)


def _counts(
    event: Callable[[int], AdvisedEvent], lowest: int, hint: int, group: TopicGroup, desk: ModelDesk
) -> set[int]:
    """Return the most brokers that an event may take without a loss, and the fewest with one, as far as known."""
    rf = group.settings.rf
    if desk.release.refuses_acks_all(rf, group.settings.min_isr):
        return {rf}

    def loses(count: int) -> bool | None:
        return {"loses": True, "survives": False}.get(desk.answer(event(count), group, "all").says)

    return {one for one in tolerance(lowest, rf, loses, hint) if one is not None}
