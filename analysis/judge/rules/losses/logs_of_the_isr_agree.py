"""KIP-101: replicas in the ISR have the same record at each offset below their HWs.

A follower truncates where its log and that of the leader part, before it fetches on, and it joins the ISR after that.
So in the end no two members of the ISR differ, whatever was cut off, killed or elected meanwhile: a record that both
have is of one leader epoch, and so are all records below it.

The items of `replica-divergence` are the offsets that differ. They count where two of the last ISR differ in an item,
and the run was complete. Leader epochs are used twice if controllers lost the metadata log: then the clause is unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow.compute as pc

from analysis.judge.history.evidence import Row
from analysis.judge.rules.clause import Clause, Finding, Judged, finding, unknown_rows
from analysis.judge.rules.losses import replica_divergence
from analysis.reconcile.model import VanishedRange
from analysis.record.record import Record

_KIND = replica_divergence.RULE.name
_Place = tuple[str, int]


def _check(judged: Judged) -> Finding:
    record = judged.record
    isrs = {place: states[-1].isr for place, states in record.timeline.partitions.items()}
    exercised = sum(len(isr) > 1 for isr in isrs.values())
    found = {(one.topic, one.partition) for one in judged.found.groups_of(VanishedRange) if one.kind == _KIND}
    first, count = _differing(record, isrs) if found else ({}, 0)
    unknown = unknown_rows(_KIND, exercised, judged.found.unknown)
    return finding(
        exercised=exercised, violations=[*first.values()], unknown=unknown, cases=count, doubt=_doubt(record)
    )


def _differing(record: Record, isrs: Mapping[_Place, Collection[int]]) -> tuple[Mapping[_Place, Row], int]:
    """Return the first item of each partition in which two of the last ISR differ, and how many there are."""
    first: dict[_Place, Row] = {}
    count = 0
    items = record.items(["topic", "partition", "offset", "details"], pc.field("kind") == _KIND)
    for batch in items.to_batches():
        for row in batch.to_pylist():
            place = row["topic"], row["partition"]
            replicas: Sequence[dict[str, Any]] = msgspec.json.decode(row["details"])["replicas"]
            mine = [one for one in replicas if one["broker"] in isrs.get(place, ())]
            if len({(one["leader_epoch"], one["value"]) for one in mine}) > 1:
                count += 1
                shown = {"topic": row["topic"], "partition": row["partition"], "offset": row["offset"]}
                before = first.get(place)
                if before is None or row["offset"] < before["offset"]:
                    first[place] = {**shown, "isr": sorted(isrs[place]), "replicas": mine}
    return first, count


def _doubt(record: Record) -> str | None:
    """Return why two members of the last ISR may differ; None: they may not."""
    if record.ends_early:
        return "the run ended early: a replica may have left the ISR before its log was read"
    return record.why_metadata_may_be_undone


RULE = Clause(
    kip="KIP-101",
    check=_check,
    parts=("replicas", "watermarks"),
    needed="never",
    unknown_when=(
        "the kind replica-divergence is unknown; or replicas differ, and the run ended early or a controller lost its "
        "log"
    ),
    example="""
        Brokers 1 and 2 are in the ISR, and hold different values at offset 0, below both HWs.
        partitions: leader=1
        replicas: broker=1 0=1; broker=2 0=2
        watermarks: source=checkpoint broker=1 high_watermark=1; source=checkpoint broker=2 high_watermark=1
        gives: offset=0 isr=1,2,3
    """,
)
