"""A lost commit is a finding with its cause, which a replay repeats and a shrink keeps."""

from __future__ import annotations

import msgspec

from ebbtide.record.verdict import AnomalyCount, Cause, CommitLoss, Loss, Verdict
from harness.replay.finding import facts_of, finding
from harness.shrink.goal import goal_to_keep, gravest_fact


def _verdict(*kinds: str, cause: Cause = "unclean-election") -> Verdict:
    return Verdict(
        run_id="run",
        outcome="as-predicted",
        anomalies=[AnomalyCount(kind=kind, topic="t", partition=0, count=1) for kind in kinds],
        commits=[
            CommitLoss(
                kind=kind, group="g", topic="t", partition=0, count=1, offset=9, offsets_partition=0, cause=cause
            )
            for kind in kinds
        ],
    )


def test_whether_somebody_asked_before_the_loss_does_not_change_the_finding() -> None:
    lost, both = finding(_verdict("commit-lost")), finding(_verdict("commit-lost", "commit-back"))
    assert lost.facts == ("commit-lost by unclean-election",)
    assert lost.is_repeated_in(both)


def test_a_commit_that_went_back_for_nobodys_fault_is_not_compared() -> None:
    stale = Verdict(
        run_id="run",
        outcome="as-predicted",
        anomalies=[AnomalyCount(kind="commit-back", topic="t", partition=0, count=1)],
    )
    assert finding(stale).is_repeated_in(finding(Verdict(run_id="run", outcome="as-predicted")))
    assert not finding(_verdict("commit-back")).is_repeated_in(finding(Verdict(run_id="run", outcome="as-predicted")))


def test_a_lost_commit_without_a_known_cause_is_a_finding() -> None:
    verdict = Verdict(
        run_id="run",
        outcome="inconclusive",
        anomalies=[AnomalyCount(kind="commit-lost", topic="t", partition=0, count=1)],
    )
    assert finding(verdict).facts == ("commit-lost",)
    assert "commit-lost on t-0" in facts_of(verdict)


def test_a_shrink_keeps_the_loss_of_a_commit() -> None:
    verdict = _verdict("commit-lost")
    found = finding(verdict)
    assert gravest_fact(found, verdict) == "commit-lost by unclean-election"
    assert goal_to_keep(found, "3.9.1", "shown").prediction.loss.commits == "some"


def test_a_shrink_predicts_no_cause_where_records_and_commits_have_different_ones() -> None:
    loss = Loss(
        topic="t",
        partition=0,
        acks=-1,
        committed=True,
        count=1,
        first_offset=1,
        last_offset=1,
        cause="unclean-election",
    )
    verdict = _verdict("commit-lost", cause="last-replica-standing")
    found = finding(msgspec.structs.replace(verdict, losses=[loss]))
    wanted = goal_to_keep(found, "3.9.1", "shown").prediction.loss
    assert (wanted.committed, wanted.commits, wanted.cause) == ("some", "some", None)
