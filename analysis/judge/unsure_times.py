"""Keeps the judge from concluding anything from times that a step of the clock left in doubt.

The order of decisions comes from offsets, epochs and sequences. What is also judged by time is listed here, and is
unknown where its times are not sure (`analysis.record.clock_steps`): it neither accuses nor excuses.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from analysis.judge.history.attributed import A
from analysis.judge.history.evidence import Attribution
from analysis.judge.rules.clause import CheckedClause
from analysis.judge.rules.findings import unknown_finding
from analysis.record.clock_steps import ClockDoubt


def without_unsure_causes(blamed: Sequence[A], clock: ClockDoubt) -> list[A]:
    """Return the anomalies; a cause that rests on times in doubt is not known."""
    found = []
    for one in blamed:
        election = one.attribution.election
        why = clock.why_unsure(None if election is None else election.after.at_ns)
        if why is not None and one.attribution.cause is not None:
            unknown = Attribution(cause=None, election=election, why=why)
            one = msgspec.structs.replace(one, attribution=unknown)
        found.append(one)
    return found


def without_unsure_findings(checked: Sequence[CheckedClause], clock: ClockDoubt) -> list[CheckedClause]:
    """Return the clauses; what rests on times in doubt is unknown."""
    return [_unknown_unless_sure(one, clock) for one in checked]


def _unknown_unless_sure(one: CheckedClause, clock: ClockDoubt) -> CheckedClause:
    if not one.clause.compares_times or one.found.status not in ("holds", "violated"):
        return one
    why = clock.why_unsure(_newest_ns(one) if one.found.status == "violated" else None)
    if why is None:
        return one
    found = msgspec.structs.replace(one.found, status="unknown", evidence=list(unknown_finding(why).evidence))
    return msgspec.structs.replace(one, found=found, cases=1)


def _newest_ns(one: CheckedClause) -> int | None:
    """Return the newest time that the evidence of a clause names; None: it names none."""
    rows = [row for row in one.found.evidence if isinstance(row, dict)]
    return max((at for row in rows for key, at in row.items() if key.endswith("_ns") and at is not None), default=None)
