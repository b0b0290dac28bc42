"""Tells the story of each lost range: sent, acked, held by, lost by, and the clause.

Every sentence names its source: a table, a step or a metadata record. What the record does not say
is said to be unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import or_

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analysis.causes.columns import PartitionTables
from analysis.causes.evidence import NEVER, UNKNOWN, AckedSends, Ints, ReadRows
from analysis.record.elections import ElectionEvent
from analysis.record.files import of_partition
from analysis.record.record import Record
from analysis.record.timeline import Timeline
from analysis.sentences import words
from analysis.sentences.elections import ROAD_TEXT, elections_by_offset, is_broken_promise
from ebbtide.record.log_losses import BrokerLogLoss, log_losses
from ebbtide.record.verdict import Loss, Verdict
from ebbtide.rules.table import LOST

STORIES_MAX = 12


class StoryLine(msgspec.Struct, frozen=True, kw_only=True):
    """One moment of a story: when, what happened, and which part of the record says so."""

    at: str
    text: str
    source: str
    is_loss: bool = False


class LossStory(msgspec.Struct, frozen=True, kw_only=True):
    """The story of one lost range, oldest moment first.

    `is_broken_promise`: the records were committed, or nothing explains their loss.
    """

    title: str
    is_broken_promise: bool
    cause: str
    clause: str
    lines: tuple[StoryLine, ...]


class _SendTimes(msgspec.Struct, frozen=True, kw_only=True):
    """When the first and the last record of a range were sent and acked."""

    sent_ns: tuple[int, int]
    done_ns: tuple[int, int]


def stories_of(record: Record, verdict: Verdict, zero_ns: int | None) -> tuple[LossStory, ...]:
    """Return a story for each loss of the verdict, at most `STORIES_MAX`."""
    told = verdict.losses[:STORIES_MAX]
    if not told:
        return ()
    there = (pc.field("kind") == LOST) & reduce(or_, map(_in_range, told))
    lost = record.items(["topic", "partition", "offset", "value"], there)
    return tuple(_story(record, loss, lost.filter(_in_range(loss)), zero_ns, verdict) for loss in told)


def _story(record: Record, loss: Loss, lost: pa.Table, zero_ns: int | None, verdict: Verdict) -> LossStory:
    """Tell of one loss; `lost` are its records. Other records may stand at their offsets by now."""
    name, timeline = f"{loss.topic}-{loss.partition}", record.timeline
    kind = "committed" if loss.committed else "uncommitted"
    values, offsets = lost["value"].to_numpy(), lost["offset"].to_numpy()
    tables = PartitionTables(record, loss.topic, loss.partition)
    times = _send_times(tables.sends(), loss, values)
    elected = (
        elections_by_offset(timeline, (loss.topic, loss.partition)).get(loss.election.metadata_offset)
        if loss.election is not None
        else None
    )
    moments: list[tuple[int, StoryLine]] = []
    moments += _sending(loss, times, timeline, elected, zero_ns)
    moments += _disks(loss, name, log_losses(record.split_steps or []), elected, zero_ns)
    if elected is not None:
        moments.append((elected.after.at_ns, _election(record, elected, zero_ns)))
    lines = [line for _, line in sorted(moments, key=lambda moment: moment[0])]
    if record.has("replicas"):
        lines.append(_aftermath(tables.replicas(), values, offsets))
    if loss.election is None:
        lines.append(StoryLine(at="-", text="No election explains the loss.", source="partitions.parquet"))
    return LossStory(
        title=f"{loss.count:,} {kind} record{'' if loss.count == 1 else 's'} of {name}, "
        f"offsets {loss.first_offset:,} to {loss.last_offset:,}, acks={words.acks(loss.acks)}",
        is_broken_promise=is_broken_promise(loss),
        cause=loss.cause,
        clause=_clause(loss, name, verdict),
        lines=tuple(lines),
    )


def _clause(loss: Loss, name: str, verdict: Verdict) -> str:
    """Return what the protocol says of the cause, and the judge's own reason where it gave one."""
    marker = f", {loss.cause}: "
    reason = next((why.split(marker, 1)[1] for why in verdict.why if why.startswith(f"{name}, ") and marker in why), "")
    allowed, _, rule = words.MEANING[loss.cause].partition("allowed")
    text = f"{allowed}allowed by the protocol{rule}"
    return f"{text[0].upper()}{text[1:]}" + (f". Here: {reason}." if reason else ".")


def _sending(
    loss: Loss, times: _SendTimes | None, timeline: Timeline, elected: ElectionEvent | None, zero_ns: int | None
) -> Iterator[tuple[int, StoryLine]]:
    if times is None:
        yield 0, StoryLine(at="-", text="When they were sent is not known.", source="sends is missing")
        return
    (sent, last_sent), (done, last_done) = times.sent_ns, times.done_ns
    yield (
        sent,
        StoryLine(
            at=words.offset_s(sent, zero_ns),
            text=f"The producer sent the first of them, and the last at {words.offset_s(last_sent, zero_ns)}.",
            source="sends",
        ),
    )
    state = timeline.state_at_time(loss.topic, loss.partition, last_done)
    held = "Which replicas had them then is not known."
    if elected is not None and last_done > elected.after.at_ns:
        held = f"The metadata log had broker {elected.leader} as leader by then."
    elif state is not None:
        isr = words.members(state.isr)
        waits = "acks=all waits for each of its members" if state.isr else "a leader acked it before that"
        leader = f"broker {state.leader}" if state.leader >= 0 else "no leader"
        held = (
            f"The ISR was {isr}; {waits}."
            if loss.acks == -1
            else f"The leader was {leader}, the ISR {isr}; acks={words.acks(loss.acks)} waits for no follower."
        )
    yield (
        last_done,
        StoryLine(
            at=words.offset_s(last_done, zero_ns),
            text=f"The last ack came; the first had come at {words.offset_s(done, zero_ns)}. {held}",
            source="sends, partitions.parquet",
        ),
    )


def _disks(
    loss: Loss, name: str, found: Sequence[BrokerLogLoss], elected: ElectionEvent | None, zero_ns: int | None
) -> Iterator[tuple[int, StoryLine]]:
    """Yield each disk that lost the range before the guilty election."""
    for one in found:
        if elected is not None and one.fired_ns > elected.after.at_ns:
            continue
        if not one.costs(loss.topic, loss.partition):
            continue
        start, end = one.starts.get(name), one.ends.get(name)
        measured = (
            f"its log of {name} ended at {start:,} before and at {end:,} afterwards"
            if start is not None and end is not None
            else f"{one.lost_bytes:,} bytes of its disk were lost"
            if one.lost_bytes is not None
            else "how much it lost was not measured"
        )
        never = " The lost part was never flushed." if not one.wiped and end is not None else ""
        what = "got an empty disk" if one.wiped else "lost power"
        yield (
            one.fired_ns,
            StoryLine(
                at=words.offset_s(one.fired_ns, zero_ns),
                text=f"Broker {one.broker} {what}: {measured}.{never}",
                source="steps.jsonl",
            ),
        )


def _election(record: Record, elected: ElectionEvent, zero_ns: int | None) -> StoryLine:
    has_elr = record.protocol.is_elr_on(elected.after.metadata_offset) is not False
    elr = f" and the ELR {words.members(elected.before.elr)}" if has_elr else ""
    return StoryLine(
        at=words.offset_s(elected.after.at_ns, zero_ns),
        text=f"Broker {elected.leader} was elected {ROAD_TEXT[elected.road]} under leader epoch {elected.epoch}, "
        f"without the records. Before, the ISR was {words.members(elected.before.isr)}{elr}.",
        source=f"metadata offset {elected.after.metadata_offset}",
        is_loss=True,
    )


def _aftermath(logs: Mapping[int, ReadRows], values: Ints, offsets: Ints) -> StoryLine:
    """Return what the replicas' logs hold at the lost offsets after the run."""
    own, other = Counter[int](), Counter[int]()
    for broker, log in logs.items():
        is_there, is_lost = np.isin(log.offset, offsets), np.isin(log.value, values)
        own[broker], other[broker] = int((is_there & is_lost).sum()), int((is_there & ~is_lost).sum())
    if own.total():
        text = f"Still in logs that no leader served: {_by_broker(own)}."
    elif other.total():
        text = f"Other records stand at these offsets now: {_by_broker(other)}."
    else:
        text = "No replica's log has any record at these offsets."
    return StoryLine(at="after the run", text=text, source="replicas")


def _by_broker(counts: Counter[int]) -> str:
    return ", ".join(f"{count:,} on broker {broker}" for broker, count in sorted(counts.items()) if count)


def _in_range(loss: Loss) -> pc.Expression:
    return (
        of_partition(loss.topic, loss.partition)
        & (pc.field("offset") >= loss.first_offset)
        & (pc.field("offset") <= loss.last_offset)
    )


def _send_times(sends: AckedSends, loss: Loss, values: Ints) -> _SendTimes | None:
    """Return when the lost records were sent and acked; None: not known."""
    mine = (sends.acks == loss.acks) & (sends.offset >= loss.first_offset) & (sends.offset <= loss.last_offset)
    mine &= np.isin(sends.value, values)
    sent, done = sends.sent_ns[mine & (sends.sent_ns != UNKNOWN)], sends.done_ns[mine & (sends.done_ns != NEVER)]
    if not len(sent) or not len(done):
        return None
    return _SendTimes(sent_ns=(int(sent.min()), int(sent.max())), done_ns=(int(done.min()), int(done.max())))
