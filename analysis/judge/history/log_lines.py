"""Reads the nodes' own logs, for what no metadata record says."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from analysis.record.record import Record
from analysis.record.timeline import MILLISECOND_NS
from ebbtide.logs.segments import TopicPartition
from ebbtide.record.clock import KafkaClocks
from ebbtide.record.files import LOGS_DIR
from ebbtide.untrusted.files import UnreadableFile, open_file

UNREADABLE = (EOFError, OSError, ValueError, UnreadableFile, zlib.error)
"""What reading a log raises if the log is damaged."""

_LOG_BYTES_MAX, _LINE_BYTES_MAX = 512 << 20, 1 << 20
"""Uncompressed; some kilobytes that are compressed can stand for terabytes."""
_LINE_BYTES_MIN = 64
"""As many bytes count for a shorter line, because each line takes time. Those of a node have 150 on average."""

_TRUNCATED = re.compile(rb"^(\S+) .*Log partition=(\S+), .*Truncating to offset (\d+)")
"""`UnifiedLog.truncateTo` (3.9.0)."""
_SEGMENTS_CUT = re.compile(
    rb"^(\S+) .*Log partition=(\S+), .*Deleting segments as part of log truncation: LogSegment\(baseOffset=(\d+),"
)
"""`LocalLog.truncateTo` and `truncateFullyAndStartAt` (3.9.0); the segments stand in their order."""


_STARTS = re.compile(
    rb"^(\S+) .*(Leader|Follower) (\S+) .*?starts at leader epoch (\d+) from offset (\d+) with partition epoch \d+"
    rb"(?:,| and) high watermark (\d+).*previous leader epoch was (-?\d+)"
)
"""`Partition.makeLeader` and `makeFollower` (3.9.0)."""


_APPLIED = re.compile(
    rb"^(\S+) .*\[Partition (\S+) broker=\d+\] ISR updated to ([\d,]+) .*and version updated to (\d+)"
)
"""`Partition.handleAlterPartitionUpdate` (3.9.0)."""


_ASKED = {
    "controller": re.compile(
        rb"Rejecting AlterPartition request|Completed transition to |Vote request |Truncated to offset "
    ),
    "broker": re.compile(
        rb"Truncating to offset |Deleting segments as part of log truncation|previous leader epoch was |ISR updated to "
        rb"|Waiting for the broker to be unfenced|The broker is in RECOVERY\.|Stopping serving logs in dir"
        rb"|The current replica is |LogManager.* clean shutdown file was found|(?:Creating new|Expected) partition "
    ),
}
"""What facts, clauses and causes look for in the logs of nodes; no other line is kept."""


class AppliedIsr(NamedTuple):
    """A leader applied the ISR that the controller had answered with, and its partition epoch."""

    partition: str
    at_ns: int
    isr: tuple[int, ...]
    partition_epoch: int


class EpochStart(NamedTuple):
    """A broker leads or follows in a new leader epoch: where its log of a partition ended then, and its HW.

    `epoch_before`: the one in which it had led or followed before; -1: in none since its process began.
    """

    partition: str
    broker: int
    at_ns: int
    leader_epoch: int
    log_end: int
    high_watermark: int
    epoch_before: int
    leads: bool


class Truncation(NamedTuple):
    """A broker cut its log of a partition such as `t-0` off at an offset."""

    partition: str
    broker: int
    at_ns: int
    offset: int


def logs_of(record: Record, role: str, nodes: Sequence[int]) -> list[Path]:
    """Return the logs of these nodes; empty if the log of any is missing."""
    logs = [log for node in nodes for log in sorted((record.folder / LOGS_DIR).glob(f"{role}-{node}.log*"))]
    there = {log.name.partition(".")[0] for log in logs}
    return logs if all(f"{role}-{node}" in there for node in nodes) else []


def lines_of(log: Path) -> Iterator[bytes]:
    """Yield the lines of a log, compressed or not; long ones in pieces.

    Raises `EOFError` if the log is longer than that of a node can be.
    """
    left = _LOG_BYTES_MAX
    with open_file(log, what="a log of the record") as file, gzip.open(file) if log.suffix == ".gz" else file as lines:
        while line := lines.readline(_LINE_BYTES_MAX):
            left -= max(len(line), _LINE_BYTES_MIN)
            if left < 0:
                raise EOFError(f"more than {_LOG_BYTES_MAX:,} bytes")
            yield line


def node_lines(record: Record, role: str, nodes: Sequence[int]) -> Iterator[bytes]:
    """Yield the lines of nodes' logs that anybody asks for; none if a log is missing. Each is read once a record.

    Raises one of `UNREADABLE` behind the last line that can be read.
    """
    for log in logs_of(record, role, nodes):
        if log.name not in record.kept_lines:
            kept: list[bytes] = []
            damage: Exception | None = None
            try:
                kept.extend(filter(_ASKED[role].search, lines_of(log)))
            except UNREADABLE as error:
                damage = error
            record.kept_lines[log.name] = kept, damage
        lines, damage = record.kept_lines[log.name]
        yield from lines
        if damage is not None:
            raise damage


def time_ns(stamp: bytes, clocks: KafkaClocks) -> int:
    """Return the time of a log line (`2026-11-23T20:06:39.394Z`), to the millisecond.

    `clocks` say only where the wall clock was: a step that sets a node's clock leaves the times of its log lines alone.
    """
    at = datetime.fromisoformat(stamp.decode("ascii").removesuffix("Z")).replace(tzinfo=UTC)
    return clocks.time_of(round(at.timestamp() * 1000) * MILLISECOND_NS).at_ns


def _matches(record: Record, broker: int, line_of: re.Pattern[bytes]) -> list[tuple[int, re.Match[bytes]]]:
    """Return such lines of a broker's log, each with its time in ns; its first group is the time as text.

    Empty if the record lacks the log, or it is damaged: also where such a line has no time.
    """
    lines = node_lines(record, "broker", (broker,))
    try:
        return [(time_ns(match[1], record.clocks), match) for line in lines if (match := line_of.match(line))]
    except UNREADABLE:
        return []


def truncations(record: Record, broker: int, *, of_segments: bool = False) -> list[Truncation]:
    """Return when a broker truncated its log of a partition, and to which offset.

    `of_segments`: when it deleted whole segments for that, and where the first of them began. That is all that Kafka
    logs where a replica deletes its whole log, to begin where its leader's log starts.
    """
    return [
        Truncation(match[2].decode(), broker, at_ns, int(match[3]))
        for at_ns, match in _matches(record, broker, _SEGMENTS_CUT if of_segments else _TRUNCATED)
    ]


def epoch_starts(record: Record, broker: int) -> list[EpochStart]:
    """Return what a broker had as it began to lead or to follow."""
    found = []
    for at_ns, match in _matches(record, broker, _STARTS):
        epoch, log_end, high_watermark, before = map(int, match.group(4, 5, 6, 7))
        place, leads = match[3].decode(), match[2] == b"Leader"
        found.append(EpochStart(place, broker, at_ns, epoch, log_end, high_watermark, before, leads))
    return found


def clean_epoch_starts(record: Record) -> dict[TopicPartition, list[EpochStart]]:
    """Return the lines of each partition whose committed records each leader has, those of each broker in order.

    No disk lost records of it, and each election was clean. Where brokers have several log directories, a replica has
    the HW of the copy that took its place.
    """
    brokers = record.manifest.topology.brokers
    if record.log_losses is None or (record.manifest.log_dirs or 1) > 1:
        return {}
    losses = [one for one in record.log_losses if one.broker in brokers]
    unclean = {
        (one.after.topic, one.after.partition) for one in record.elections if one.is_from_outside or one.removes_isr
    }
    places = {
        str(TopicPartition(*place)): TopicPartition(*place)
        for place in record.timeline.partitions
        if place not in unclean
        and place[0] not in record.timeline.reused_names
        and not any(loss.costs(*place) for loss in losses)
    }
    found: dict[TopicPartition, list[EpochStart]] = {}
    for broker in brokers if places else ():
        for line in epoch_starts(record, broker):
            if line.partition in places:
                found.setdefault(places[line.partition], []).append(line)
    return found


def applied_isrs(record: Record, broker: int) -> list[AppliedIsr]:
    """Return the ISRs that a leader applied."""
    return [
        AppliedIsr(match[2].decode(), at_ns, tuple(map(int, match[3].split(b","))), int(match[4]))
        for at_ns, match in _matches(record, broker, _APPLIED)
    ]


def line_times(record: Record, broker: int, says: bytes) -> list[int]:
    """Return when (ns) the broker's log says something that `_ASKED` keeps; empty if the record lacks that log."""
    line_of = re.compile(rb"^(\S+) .*" + re.escape(says))
    return [at_ns for at_ns, _ in _matches(record, broker, line_of)]
