"""Checks KIP-98's promises to clients: no aborted reads, no duplicates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from analysis.judge.clauses.findings import Finding, Row, finding
from ebbtide.record.manifest import Manifest

if TYPE_CHECKING:
    from analysis.reconcile.model import AbortedReads, Duplicates


def no_aborted_read(
    reads: Sequence[AbortedReads],
    manifest: Manifest,
    *,
    failed: int,
    why_lossy: str | None,
    unknown_kinds: Mapping[str, str],
) -> Finding:
    """KIP-98, read_committed: no consumer gets a message of an aborted transaction.

    Nor does a consumer get a message that was not appended. `failed` counts the sends that
    certainly failed: their values must not come back at either isolation level. `why_lossy`: a log
    lost records, perhaps the marker that aborted a transaction. The marker of the next one covers
    its records then, so that such reads are unknown.
    """
    transactional = sum(producer.transactional for producer in manifest.producers.values())
    exercised = transactional + failed
    return finding(
        exercised=exercised,
        violations=[] if why_lossy is not None else [_row(one) for one in reads],
        unknown=[
            *_unknown_rows("aborted-read", exercised, unknown_kinds),
            *([_row(one) | {"why": why_lossy} for one in reads] if why_lossy is not None else []),
        ],
        cases=sum(one.count for one in reads),
    )


def no_duplicate_of_an_idempotent_producer(
    duplicates: Sequence[Duplicates], manifest: Manifest, *, unknown_kinds: Mapping[str, str]
) -> Finding:
    """KIP-98, idempotent producer: a retried send is written to the log once.

    Only a value that is twice in the final log counts. After a loss, a retry may append a value
    again whose first copy was cut off. Then one copy remains, and the loss is judged by itself.
    """
    exercised = sum(producer.idempotent for producer in manifest.producers.values())
    theirs = [one for one in duplicates if one.idempotent]
    twice = [one for one in theirs if one.twice_in_final_log]
    open_ = _unknown_rows("duplicate", exercised, unknown_kinds)
    open_ += [
        _row(one) | {"why": why}
        for one in theirs
        if not one.twice_in_final_log and (why := _why_cut_off_unknown(one, unknown_kinds)) is not None
    ]
    return finding(
        exercised=exercised,
        violations=[_row(one) for one in twice],
        unknown=open_,
        cases=sum(one.count for one in twice),
    )


def _row(one: AbortedReads | Duplicates) -> Row:
    return {"topic": one.topic, "partition": one.partition, "count": one.count, **one.first}


def _unknown_rows(kind: str, exercised: int, unknown_kinds: Mapping[str, str]) -> list[Row]:
    return [{"why": unknown_kinds[kind]}] if exercised and kind in unknown_kinds else []


def _why_cut_off_unknown(one: Duplicates, unknown_kinds: Mapping[str, str]) -> str | None:
    """Say why a missing copy may not have been cut off; None if it surely was."""
    if "vanished" in unknown_kinds:
        return unknown_kinds["vanished"]
    if one.unreadable:
        whose = "a duplicate" if one.count == 1 else f"{one.count:,} duplicates, the first of them"
        places = "a place" if one.first["unreadable"] == 1 else f"{one.first['unreadable']:,} places"
        where = "below the log start, or on a partition whose final offsets are not known"
        return f"{whose} was at {places} where nothing can be read any more: {where}"
    return None
