"""What KIP-98 promises to clients: nothing of an aborted transaction is returned, nothing is appended twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analysis.judge.findings import Finding, Row, finding
from analysis.verdict import AnomalyCount
from harness.record.manifest import Manifest


def no_aborted_read(
    anomalies: Sequence[AnomalyCount], manifest: Manifest, *, failed: int, unknown_kinds: Mapping[str, str]
) -> Finding:
    """KIP-98, read_committed: a consumer gets no message of an aborted transaction, nor one that was not appended.

    `failed`: how many sends failed for certain; their values must never come back at either isolation.
    """
    transactional = sum(producer.transactional for producer in manifest.producers.values())
    rows = [
        {"topic": one.topic, "partition": one.partition, "count": one.count, **_first(one)}
        for one in anomalies
        if one.kind == "aborted-read"
    ]
    exercised = transactional + failed
    return finding(exercised=exercised, violations=rows, unknown=_not_judged("aborted-read", exercised, unknown_kinds))


def no_duplicate_of_an_idempotent_producer(
    anomalies: Sequence[AnomalyCount], manifest: Manifest, *, unknown_kinds: Mapping[str, str]
) -> Finding:
    """KIP-98, idempotent producer: a retried send is written to the log once.

    Only a value that stands twice in the final log counts. After a loss a retry may append a value again whose
    first place was cut off: then one place stands, and the loss is judged for itself.
    """
    exercised = sum(producer.idempotent for producer in manifest.producers.values())
    twice: list[Row] = []
    open_ = _not_judged("duplicate", exercised, unknown_kinds)
    for one in anomalies:
        if one.kind != "duplicate" or not exercised:
            continue
        where: Row = {"topic": one.topic, "partition": one.partition}
        for example in one.examples:
            row = where | example
            if not example["idempotent"]:
                continue
            if example["standing"] > 1:
                twice.append(row)
            elif (why := _cut_off_unknown(example, unknown_kinds)) is not None:
                open_.append(row | {"why": why})
        if one.count > len(one.examples):
            why = f"of {one.count:,} duplicates of {one.topic}-{one.partition} the first {len(one.examples)} were seen"
            open_.append(where | {"why": why})
    return finding(exercised=exercised, violations=twice, unknown=open_)


def _first(one: AnomalyCount) -> Row:
    return dict(one.examples[0]) if one.examples else {}


def _not_judged(kind: str, exercised: int, unknown_kinds: Mapping[str, str]) -> list[Row]:
    return [{"why": unknown_kinds[kind]}] if exercised and kind in unknown_kinds else []


def _cut_off_unknown(example: Row, unknown_kinds: Mapping[str, str]) -> str | None:
    """Why a place that does not stand may not have been cut off; None: it was."""
    if "vanished" in unknown_kinds:
        return unknown_kinds["vanished"]
    if unreadable := example["unreadable"]:
        places = "a place" if unreadable == 1 else f"{unreadable:,} places"
        where = "below the log start, or on a partition whose final offsets are not known"
        return f"a duplicate stood at {places} where nothing can be read any more: {where}"
    return None
