"""The word at the end of a run, its exit code, and whether what it lost is allowed."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ebbtide.errors import ExitCode
from ebbtide.record.manifest import Manifest
from ebbtide.record.outcomes import (
    FailOn,
    allows_everything,
    exit_code_of,
    is_loss_allowed,
    loss_sentences,
    lost_counts,
    next_command,
    outcome_word,
)
from ebbtide.record.own_producers import OwnProducer
from ebbtide.record.verdict import (
    AnomalyCount,
    Cause,
    Loss,
    Outcome,
    PropertyResult,
    PropertyStatus,
    Verdict,
    unfinished_verdict,
)
from ebbtide.scenario.model import PROTOCOL_ALONE, LossExpectation, Prediction
from harness.random.drawing import _PREDICTIONS as OF_RANDOM
from harness.watch.plan import PROTOCOL_OF_A_WATCH


def loss(count: int, *, committed: bool = True, cause: Cause = "unclean-election") -> Loss:
    return Loss(
        topic="t", partition=0, acks=-1, committed=committed, cause=cause, count=count, first_offset=0, last_offset=9
    )


def verdict(outcome: Outcome = "as-predicted", *losses: Loss, unknown: int = 0) -> Verdict:
    count = sum(one.count for one in losses) + unknown
    return Verdict(
        run_id="r",
        outcome=outcome,
        losses=[*losses],
        anomalies=[AnomalyCount(kind="lost", topic="t", partition=0, count=count)] if count else [],
    )


@pytest.mark.parametrize(
    ("outcome", "lost", "fail_on", "code"),
    [
        ("as-predicted", 0, "loss", ExitCode.AS_PREDICTED),
        ("as-predicted", 5, "outcome", ExitCode.AS_PREDICTED),
        ("as-predicted", 5, "loss", ExitCode.CONTRADICTED),
        ("contradicted", 0, "loss", ExitCode.CONTRADICTED),
        ("inconclusive", 5, "loss", ExitCode.INCONCLUSIVE),
    ],
)
def test_a_lost_record_fails_a_run_that_nothing_else_fails(
    outcome: Outcome, lost: int, fail_on: FailOn, code: ExitCode
) -> None:
    found = verdict(outcome, *([loss(lost)] if lost else []))
    assert exit_code_of(found, fail_on) is code


def test_uncommitted_records_fail_no_run() -> None:
    found = verdict("as-predicted", loss(41, committed=False, cause="uncommitted-at-failover"))
    assert exit_code_of(found, "loss") is ExitCode.AS_PREDICTED
    assert lost_counts(found) == (0, 41)


def test_a_lost_record_without_a_cause_counts_as_committed() -> None:
    assert lost_counts(verdict("inconclusive", loss(3), loss(2, committed=False), unknown=4)) == (7, 2)


@pytest.mark.parametrize("outcome", ["as-predicted", "contradicted", "inconclusive"])
def test_only_a_run_that_nothing_speaks_against_is_called_after_its_prediction(outcome: Outcome) -> None:
    predicted = verdict(outcome)
    alone = Verdict(run_id="r", outcome=outcome, prediction="none")
    assert outcome_word(predicted) == outcome
    assert outcome_word(alone) == ("no prediction" if outcome == "as-predicted" else outcome)


def test_what_random_schedules_watches_and_files_without_predictions_predict_is_nothing() -> None:
    assert all(map(allows_everything, (PROTOCOL_ALONE, PROTOCOL_OF_A_WATCH, *OF_RANDOM)))


@pytest.mark.parametrize(
    "key",
    [
        {"loss": LossExpectation(committed="none")},
        {"hw_regression": "none"},
        {"elected_from_elr": True},
        {"anomalies": "none"},
        {"exercised": ("elections",)},
        {"known_bug": "a bug"},
    ],
)
def test_a_prediction_that_a_run_can_break_is_one(key: dict[str, object]) -> None:
    assert not allows_everything(Prediction(kafka=">=3.3", clause="mine", **key))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("causes", "status", "allowed"),
    [
        ((), "holds", None),
        (("unclean-election",), "holds", True),
        (("unclean-election",), "unknown", None),
        (("unclean-election", "unexplained"), "violated", False),
        (("unexplained",), "unknown", False),
    ],
)
def test_whether_a_loss_is_allowed_needs_a_committed_loss_and_a_known_answer(
    causes: tuple[Cause, ...], status: PropertyStatus, allowed: bool | None
) -> None:
    clause = PropertyResult(name="no-committed-loss-unless-allowed", kip="KIP-966", status=status)
    assert is_loss_allowed([loss(1, cause=cause) for cause in causes], [clause]) is allowed


def test_a_loss_that_nobody_predicted_is_said_with_what_the_protocol_says_of_it() -> None:
    lost = Verdict(
        run_id="r",
        outcome="as-predicted",
        prediction="none",
        loss_allowed=True,
        losses=[loss(2_278)],
        anomalies=[AnomalyCount(kind="lost", topic="t", partition=0, count=2_278)],
    )
    assert loss_sentences(lost) == "2,278 committed records were lost. The replication protocol allows the loss."
    assert loss_sentences(verdict("as-predicted", loss(2_278))) is None
    assert loss_sentences(Verdict(run_id="r", outcome="as-predicted", prediction="none")) is None


KEPT = OwnProducer(client="orders-1", acks=1, topic="orders", partition=0, acked=5273)
LOST = OwnProducer(
    client="orders-1", acks=1, topic="orders", partition=1, acked=600, lost=500, first_offset=100, last_offset=599
)


def own_verdict(*producers: OwnProducer) -> Verdict:
    return replace(unfinished_verdict("run-1"), own_producers=[*producers])


@pytest.mark.parametrize(
    ("judged", "says"),
    [
        (own_verdict(KEPT), "5,273 acked records, none lost"),
        (own_verdict(KEPT, LOST), "5,873 acked records, 500 lost"),
        (unfinished_verdict("run-1"), ""),
    ],
)
def test_the_figure_has_what_is_known(judged: Verdict, says: str) -> None:
    assert judged.own_figure == says


def test_after_a_loss_the_next_command_explains_the_first_lost_record() -> None:
    command = next_command("runs/one", Manifest(run_id="run-1"), own_verdict(KEPT, LOST))
    assert command == "ebbtide explain runs/one    (its first lost record, step by step)"


@pytest.mark.parametrize(("acks", "code"), [(-1, ExitCode.CONTRADICTED), (1, ExitCode.AS_PREDICTED)])
def test_fail_on_loss_counts_what_own_producers_sent_with_acks_all(acks: int, code: ExitCode) -> None:
    judged = replace(own_verdict(KEPT, replace(LOST, acks=acks)), outcome="as-predicted")
    assert exit_code_of(judged, "loss") is code
    assert exit_code_of(judged) is ExitCode.AS_PREDICTED


def test_the_loss_to_explain_first_is_one_of_acks_all() -> None:
    worse = replace(LOST, acks=-1, partition=0)
    assert own_verdict(LOST, worse, replace(worse, acks=-1, first_offset=None)).first_own_loss == worse
    assert own_verdict(KEPT).first_own_loss is None
