"""What KIP-98 promises to clients: nothing of an aborted transaction is returned, nothing is appended twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from analysis.judge.clauses.findings import Finding, Row, finding
from ebbtide.record.manifest import Manifest

if TYPE_CHECKING:
    from analysis.reconcile.model import AbortedReads, Duplicates


def no_aborted_read(
    reads: Sequence[AbortedReads], manifest: Manifest, *, failed: int, unknown_kinds: Mapping[str, str]
) -> Finding:
    """KIP-98, read_committed: a consumer gets no message of an aborted transaction, nor one that was not appended.

    `failed`: how many sends failed for certain; their values must never come back at either isolation.
    """
    transactional = sum(producer.transactional for producer in manifest.producers.values())
    exercised = transactional + failed
    return finding(
        exercised=exercised,
        violations=[_row(one) for one in reads],
        unknown=_not_judged("aborted-read", exercised, unknown_kinds),
        cases=sum(one.count for one in reads),
    )


def no_duplicate_of_an_idempotent_producer(
    duplicates: Sequence[Duplicates], manifest: Manifest, *, unknown_kinds: Mapping[str, str]
) -> Finding:
    """KIP-98, idempotent producer: a retried send is written to the log once.

    Only a value that stands twice in the final log counts. After a loss a retry may append a value again whose
    first place was cut off: then one place stands, and the loss is judged for itself.
    """
    exercised = sum(producer.idempotent for producer in manifest.producers.values())
    theirs = [one for one in duplicates if one.idempotent]
    twice = [one for one in theirs if one.stands_twice]
    open_ = _not_judged("duplicate", exercised, unknown_kinds)
    open_ += [
        _row(one) | {"why": why}
        for one in theirs
        if not one.stands_twice and (why := _cut_off_unknown(one, unknown_kinds)) is not None
    ]
    return finding(
        exercised=exercised,
        violations=[_row(one) for one in twice],
        unknown=open_,
        cases=sum(one.count for one in twice),
    )


def _row(one: AbortedReads | Duplicates) -> Row:
    return {"topic": one.topic, "partition": one.partition, "count": one.count, **one.first}


def _not_judged(kind: str, exercised: int, unknown_kinds: Mapping[str, str]) -> list[Row]:
    return [{"why": unknown_kinds[kind]}] if exercised and kind in unknown_kinds else []


def _cut_off_unknown(one: Duplicates, unknown_kinds: Mapping[str, str]) -> str | None:
    """Why a place that does not stand may not have been cut off; None: it was."""
    if "vanished" in unknown_kinds:
        return unknown_kinds["vanished"]
    if one.unreadable:
        whose = "a duplicate" if one.count == 1 else f"{one.count:,} duplicates, the first of them"
        places = "a place" if one.first["unreadable"] == 1 else f"{one.first['unreadable']:,} places"
        where = "below the log start, or on a partition whose final offsets are not known"
        return f"{whose} stood at {places} where nothing can be read any more: {where}"
    return None
