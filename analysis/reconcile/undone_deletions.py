"""Finds deletions on purpose that a crash undid: records that came back.

A broker writes its log starts to a file once a minute. Where all replicas end before that, the log
begins at an earlier offset again. Deleted records can then be read again, or their offsets are used
again. A consumer that passed them by may have done so while they were deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_

from analysis.rows.deletions import Deletion
from analysis.rows.facts import Facts, short_list
from analysis.spark.columns import is_below
from analysis.spark.sql import Column, F


def with_undone_deletions(facts: Facts) -> str | None:
    """Say which partitions' deleted records may have come back; None when none may."""
    names = {f"{one.topic}-{one.partition}" for one in _undone_deletions(facts)}
    why = "were deleted on purpose and came back, and a consumer may have passed them by meanwhile"
    return f"records of {short_list(names)} {why}" if names else None


def may_have_been_deleted(runs: Sequence[Facts], offset: Column) -> Column:
    """Return whether `offset` of a row's partition lies below the log start of an undone deletion."""
    found = [is_below(facts.run, one, offset) for facts in runs for one in _undone_deletions(facts)]
    return F.coalesce(reduce(or_, found, F.lit(False)), F.lit(False))


def _undone_deletions(facts: Facts) -> tuple[Deletion, ...]:
    """Return the deletions whose log start the final log begins below."""
    ends = facts.final_offsets
    named = ((f"{one.topic}-{one.partition}", one) for one in facts.deletions)
    return tuple(one for name, one in named if name in ends and ends[name].log_start < one.log_start)
