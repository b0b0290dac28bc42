"""KIP-98, idempotent producer: a retried send is written to the log once.

Only a value that is twice in the final log counts. After a loss, a retry may append a value
again whose first copy was cut off. Then one copy remains, and the loss is judged by itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from analysis.judge.rules.appends import duplicate
from analysis.judge.rules.clause import Clause, Finding, Judged, client_row, finding, unknown_rows
from analysis.judge.rules.losses import vanished
from analysis.reconcile.model import Duplicates
from analysis.record.whole import OF_LOSSES


def _check(judged: Judged) -> Finding:
    exercised = sum(producer.idempotent for producer in judged.record.manifest.producers.values())
    theirs = [one for one in judged.found.groups_of(Duplicates) if one.idempotent]
    twice = [one for one in theirs if one.twice_in_final_log]
    open_ = unknown_rows(duplicate.RULE.name, exercised, judged.unknown)
    open_ += [
        client_row(one) | {"why": why}
        for one in theirs
        if not one.twice_in_final_log and (why := _why_cut_off_unknown(one, judged.unknown)) is not None
    ]
    return finding(
        exercised=exercised,
        violations=[client_row(one) for one in twice],
        unknown=open_,
        cases=sum(one.count for one in twice),
    )


def _why_cut_off_unknown(one: Duplicates, unknown_kinds: Mapping[str, str]) -> str | None:
    """Say why a missing copy may not have been cut off; None if it surely was."""
    if vanished.RULE.name in unknown_kinds:
        return unknown_kinds[vanished.RULE.name]
    if one.unreadable:
        whose = "a duplicate" if one.count == 1 else f"{one.count:,} duplicates, the first of them"
        count = one.first["unreadable"]
        places = "a place" if count == 1 else f"{count:,} places"
        where = "below the log start, or on a partition whose final offsets are not known"
        return f"{whose} was at {places} where nothing can be read any more: {where}"
    return None


RULE = Clause(
    kip="KIP-98",
    check=_check,
    reads_timeline=False,
    parts=OF_LOSSES,
    unknown_when=(
        "the kind duplicate is unknown, or it is unknown whether a place was truncated. Only a duplicate "
        "in the final log violates the clause"
    ),
    example="""
        The final log has a value of an idempotent producer twice.
        sends: 0=1
        polls: final 0=1 1=1
        setting: idempotent
        gives: offset=0 value=1 count=1
    """,
)
