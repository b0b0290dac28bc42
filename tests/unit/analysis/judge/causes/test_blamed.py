"""verdict.json lists all anomalies that may have a cause in one list; the others are views of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from coordinator_stories import last_coordinator_standing
from judge_records import last_replica_standing

from ebbtide.record.verdict import Verdict
from ebbtide.rules.table import COMMIT_LOST, LOST


def counted(verdict: Verdict) -> Counter[tuple[object, ...]]:
    """How many anomalies of each kind, place, cause and election are blamed, of those with a known cause."""
    found: Counter[tuple[object, ...]] = Counter()
    for one in verdict.blamed:
        if one.cause is not None:
            found[one.kind, one.topic, one.partition, one.cause, one.election] += one.count
    return found


def test_each_loss_is_in_the_list_with_its_cause_and_why(tmp_path: Path) -> None:
    verdict = last_replica_standing(tmp_path).judge()
    losses: Counter[tuple[object, ...]] = Counter()
    for one in verdict.losses:
        losses[LOST, one.topic, one.partition, one.cause, one.election] += one.count
    assert losses
    assert counted(verdict) == losses
    assert all(one.why for one in verdict.blamed)
    assert {(one.first, one.last) for one in verdict.blamed} == {
        (one.first_offset, one.last_offset) for one in verdict.losses
    }


def test_a_lost_commit_is_in_the_list_at_the_partition_that_its_group_reads(tmp_path: Path) -> None:
    story = last_coordinator_standing(tmp_path)
    story.lose_commit(acked_s=5, asked_s=25, epoch=2)
    verdict = story.judge()
    (lost,) = verdict.commits
    (blamed,) = [one for one in verdict.blamed if one.kind == COMMIT_LOST]
    assert (blamed.topic, blamed.partition, blamed.group) == (lost.topic, lost.partition, lost.group)
    assert (blamed.count, blamed.cause, blamed.election) == (lost.count, lost.cause, lost.election)


@pytest.mark.parametrize("missing", ["partitions"])
def test_a_loss_without_a_known_cause_is_in_the_list_and_in_no_other(tmp_path: Path, missing: str) -> None:
    verdict = last_replica_standing(tmp_path).judge(missing=(missing,))
    assert verdict.losses == []
    assert [(one.kind, one.cause) for one in verdict.blamed] == [(LOST, None)]
    assert verdict.blamed[0].why
