"""Counts what the wire proxies held that a metadata record does not show.

A follower that gets a Fetch answer of an earlier leader epoch must ignore it. The follower has no other sign of that
epoch if its log ends again where the request asked from, and if the same broker leads again. Only such an answer can
show whether the follower looks at the epoch (KAFKA-18991).
"""

from __future__ import annotations

import contextlib
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID

import pyarrow.compute as pc

from analysis.judge.history.wire_events import DivergingAnswer, ProxyEvent, wire_events
from analysis.record.files import of_partition
from analysis.record.record import Record
from ebbtide.coverage_fact import Fact
from ebbtide.record.rows import PartitionState

FACTS = (
    Fact(
        "steps",
        "diverging-answers-of-an-earlier-epoch",
        "held Fetch answers that make a follower truncate, and that arrived under a later epoch of the same "
        "leader while the follower was in the ISR and the HW was where the Fetch had asked from",
        "KAFKA-18991",
    ),
)

FACT = "diverging-answers-of-an-earlier-epoch"


def count(record: Record) -> Counter[str]:
    """Count the facts; facts that need missing or damaged parts of the record are left out.

    Without the topics' ids, an answer's topic is known only where a single topic has its partition.
    """
    if "partitions" in record.timeline.missing:
        return Counter()
    events = wire_events(record)
    if events is None:
        return Counter()
    counted = [_is_of_an_earlier_epoch(record, record.manifest.topic_ids, *one) for one in _delivered(events)]
    if None in counted and True not in counted:
        return Counter()
    return Counter({FACT: counted.count(True)})


def _delivered(events: Sequence[ProxyEvent]) -> Iterator[tuple[ProxyEvent, ProxyEvent]]:
    """Yield each diverging answer that was held and went on, with the event of each."""
    held: dict[tuple[int, int, int | None, int | None], ProxyEvent] = {}
    for event in events:
        if event.event == "held" and event.diverging:
            held[event.frame] = event
        elif event.event == "forwarded" and event.frame in held:
            yield held.pop(event.frame), event


def _is_of_an_earlier_epoch(
    record: Record, topic_ids: Mapping[str, str], held: ProxyEvent, forwarded: ProxyEvent
) -> bool | None:
    """Return whether only its leader epoch shows that the answer is not for the follower's present state.

    None if that depends on which topic the answer is about, and the record does not say it.
    """
    is_open = False
    for one in held.diverging:
        topics = _topics_of(one, record, topic_ids)
        fits = [_is_only_of_an_earlier_epoch(record, topic, one, held, forwarded) for topic in topics]
        if fits and all(fits):
            return True
        is_open = is_open or any(fits)
    return None if is_open else False


def _topics_of(one: DivergingAnswer, record: Record, topic_ids: Mapping[str, str]) -> list[str]:
    """Return the topics that an answer may be about: one, if the record says it."""
    named = {topic for topic, partition in record.timeline.partitions if partition == one.partition}
    spelled = one.topic
    with contextlib.suppress(ValueError):
        spelled = urlsafe_b64encode(UUID(one.topic).bytes).decode().rstrip("=")
    known = topic_ids.get(spelled, one.topic)
    return [known] if known in named or spelled in topic_ids else sorted(named)


def _is_only_of_an_earlier_epoch(
    record: Record, topic: str, one: DivergingAnswer, held: ProxyEvent, forwarded: ProxyEvent
) -> bool:
    timeline = record.timeline
    before = timeline.state_at_time(topic, one.partition, held.at_ns)
    now = timeline.state_at_time(topic, one.partition, forwarded.at_ns)
    if before is None or now is None or not _leads_again(before, now, held):
        return False
    asked = one.fetch_offset
    return asked is not None and one.end_offset < asked == _newest_hw(record, now, forwarded.at_ns)


def _leads_again(before: PartitionState, now: PartitionState, held: ProxyEvent) -> bool:
    """Return whether the broker that answered leads again, and the follower is in its ISR."""
    same_leader = before.leader == now.leader == held.peer
    return same_leader and now.leader_epoch > before.leader_epoch and held.node in now.isr


def _newest_hw(record: Record, state: PartitionState, at_ns: int) -> int | None:
    """Return the HW that was seen last before `at_ns`; None if none was."""
    if not record.has("watermarks"):
        return None
    where = of_partition(state.topic, state.partition) & (pc.field("at_ns") <= at_ns)
    seen: list[tuple[int, int]] = []
    for batch in record.batches("watermarks", ["at_ns", "high_watermark"], where):
        seen += [
            (row["at_ns"], row["high_watermark"]) for row in batch.to_pylist() if row["high_watermark"] is not None
        ]
    return max(seen)[1] if seen else None
