"""The clause on hanging transactions: when it is violated, and when it is unknown or not exercised."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from judge_records import Story, by_name
from records import as_record

from analysis.judge.rules.transactions.no_hanging_transaction import VERIFICATION, why_unverified
from analysis.reconcile.model import HangingTransaction
from ebbtide.record.manifest import FOREIGN, FinalTransactions, ProducerSetup, WatchFacts
from ebbtide.record.verdict import AnomalyCount, Verdict
from ebbtide.scenario.model import ClusterSpec, Scenario, TopicSpec

HANGING = "no-hanging-transaction"


def hanging_story(record: Path, kafka: str = "3.9.1", *, hangs: bool = True, transactional: bool = True) -> Story:
    record.mkdir(exist_ok=True)
    story = Story(record, kafka=kafka)
    story.state(1)
    story.predict('loss = { committed = "none", uncommitted = "none" }')
    producers = {"1": ProducerSetup(acks=-1, transactional=transactional)}
    story.change(producers=producers, final_transactions=FinalTransactions(states={"ebbtide-1": "CompleteCommit"}))
    if hangs:
        first = {"offset": 7, "value": 3, "last_stable": 7, "high_watermark": 9}
        story.hanging = [HangingTransaction(kind="hanging-transaction", topic="t", partition=0, count=1, first=first)]
        story.anomalies.append(AnomalyCount(kind="hanging-transaction", topic="t", partition=0, count=1))
    return story


def evidence(verdict: Verdict) -> Any:
    return next(one.evidence for one in verdict.properties if one.name == HANGING)


def test_a_hanging_transaction_is_a_violation_where_leaders_verify(tmp_path: Path) -> None:
    verdict = hanging_story(tmp_path).judge()
    assert by_name(verdict)[HANGING] == "violated"
    assert evidence(verdict) == [
        {"topic": "t", "partition": 0, "count": 1, "offset": 7, "value": 3, "last_stable": 7, "high_watermark": 9}
    ]
    assert verdict.outcome == "contradicted"
    assert any("KIP-890 is violated: no-hanging-transaction (1 case, first: t-0)" in why for why in verdict.why)
    assert verdict.coverage["hanging-transactions"] == 1


def test_without_one_the_clause_holds(tmp_path: Path) -> None:
    verdict = hanging_story(tmp_path, hangs=False).judge()
    assert by_name(verdict)[HANGING] == "holds"
    assert verdict.outcome == "as-predicted", verdict.why


def test_a_producer_that_began_no_transaction_exercises_nothing(tmp_path: Path) -> None:
    story = hanging_story(tmp_path, hangs=False)
    story.change(final_transactions=FinalTransactions(states={"ebbtide-1": "Empty", "ebbtide-2": None}))
    assert by_name(story.judge())[HANGING] == "not-exercised"


def test_without_the_metadata_timeline_nobody_is_accused(tmp_path: Path) -> None:
    story = hanging_story(tmp_path)
    assert by_name(story.judge(missing=("partitions",)))[HANGING] == "unknown"


def test_a_run_without_transactions_has_no_such_clause(tmp_path: Path) -> None:
    assert by_name(hanging_story(tmp_path, hangs=False, transactional=False).judge())[HANGING] == "not-exercised"


def test_a_release_without_verification_promises_nothing(tmp_path: Path) -> None:
    verdict = hanging_story(tmp_path, kafka="3.5.2").judge()
    assert by_name(verdict)[HANGING] == "not-exercised"
    assert evidence(verdict) == [{"why": "Kafka 3.5.2 does not verify transactions (KIP-890, from 3.6.0 on)"}]
    assert verdict.coverage["hanging-transactions"] == 1


@pytest.mark.parametrize("lost_bytes", [1, None])
def test_a_log_that_lost_records_may_have_lost_the_marker(tmp_path: Path, lost_bytes: int | None) -> None:
    story = hanging_story(tmp_path)
    proof = {} if lost_bytes is None else {"lost_bytes": lost_bytes}
    story.step(2, "power-loss", 1, **proof)
    verdict = story.judge()
    assert by_name(verdict)[HANGING] == "unknown"
    assert "lost records" in evidence(verdict)[0]["why"]


def test_a_power_loss_that_cost_nothing_excuses_nothing(tmp_path: Path) -> None:
    story = hanging_story(tmp_path)
    story.step(2, "power-loss", 1, lost_bytes=0)
    assert by_name(story.judge())[HANGING] == "violated"


def test_an_unclean_election_may_have_cost_the_marker(tmp_path: Path) -> None:
    story = hanging_story(tmp_path)
    story.state(2, leader=-1, isr=[1])
    story.state(3, leader=2, leader_epoch=9, isr=[2], leader_recovery_state=1)
    verdict = story.judge()
    assert by_name(verdict)[HANGING] == "unknown"
    assert "an election outside ISR and ELR" in evidence(verdict)[0]["why"]


def test_a_watched_cluster_is_never_accused(tmp_path: Path) -> None:
    story = hanging_story(tmp_path)
    story.change(runtime=FOREIGN, watch=WatchFacts(clock_distance_ms=1))
    assert by_name(story.judge())[HANGING] == "unknown"


def test_a_kind_that_is_unknown_leaves_the_clause_unknown(tmp_path: Path) -> None:
    story = hanging_story(tmp_path, hangs=False)
    story.unknown = {"hanging-transaction": "nobody asked"}
    verdict = story.judge()
    assert by_name(verdict)[HANGING] == "unknown"
    assert verdict.outcome == "inconclusive"
    assert "hanging-transactions" not in verdict.coverage


def test_a_record_from_before_the_kind_keeps_its_outcome(tmp_path: Path) -> None:
    story = hanging_story(tmp_path, hangs=False)
    story.change(final_transactions=None, final_consumer=9999)
    story.unknown = {"hanging-transaction": "nobody asked"}
    verdict = story.judge()
    assert by_name(verdict)[HANGING] == "not-exercised"
    assert verdict.outcome == "as-predicted"


@pytest.mark.parametrize("how", ["file", "step"])
def test_a_run_that_switches_verification_off_promises_nothing(tmp_path: Path, how: str) -> None:
    story = hanging_story(tmp_path)
    assert _why_unverified(story, "true") is None
    if how == "step":
        story.step(2, "set-config", resource="cluster", config={VERIFICATION: "false"})
    assert VERIFICATION in (_why_unverified(story, "false" if how == "file" else "true") or "")


def _why_unverified(story: Story, verification: str) -> str | None:
    record = as_record(story.record, story.manifest)
    cluster = ClusterSpec(broker_properties={VERIFICATION: verification})
    record.scenario = Scenario(
        name="s", title="s", kafka=("4.3.1",), topics={"t": TopicSpec()}, producers=(), cluster=cluster
    )
    record.steps = story.steps
    return why_unverified(record)
