"""The word, the exit code and the losses of a verdict: one answer for the terminal, pages, nights and pytest.

A run of a scenario without a prediction ends as-predicted if nothing in it violates the protocol, which allows some
losses. Its word is "no prediction": nobody predicted what it shows.

What `ebbtide analyze -` answers for each record.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from ebbtide.errors import ExitCode
from ebbtide.record.manifest import NO_CONTROLLERS_NAMED
from ebbtide.record.properties import failed_file
from ebbtide.record.verdict import (
    EXIT_OF_OUTCOME,
    VERDICT,
    Loss,
    Outcome,
    PredictionKind,
    PropertyResult,
    Verdict,
    counts_by_kind,
)
from ebbtide.rules.table import LOST, NO_COMMITTED_LOSS
from ebbtide.scenario.model import Prediction
from ebbtide.shown_text import plural

if TYPE_CHECKING:
    from ebbtide.record.manifest import Manifest


FailOn = Literal["outcome", "loss"]
"""What makes a command fail: the outcome alone, or also any loss of committed records."""
OutcomeWord = Literal["as-predicted", "contradicted", "inconclusive", "no prediction"]


PROTOCOL_SAYS: Mapping[bool | None, str] = {
    True: "The replication protocol allows the loss.",
    False: "The replication protocol does not allow the loss.",
    None: "Whether the replication protocol allows the loss is not known.",
}
"""By `loss_allowed` of a verdict."""


class LostCounts(NamedTuple):
    """How many acked records are lost. One whose commitment is not known counts as committed."""

    committed: int
    uncommitted: int


def lost_counts(verdict: Verdict) -> LostCounts:
    """Return how many acked records of a judged run are lost."""
    by_commitment = Counter[bool]()
    for loss in verdict.losses:
        by_commitment[loss.committed] += loss.count
    return LostCounts(by_commitment[True] + count_lost_without_cause(verdict), by_commitment[False])


def count_committed_lost(verdict: Verdict) -> int:
    """Return how many committed records of all clients are lost; those that yours sent with acks=all count."""
    return lost_counts(verdict).committed + sum(one.lost for one in verdict.own_losses if one.acks == -1)


def count_lost_without_cause(verdict: Verdict) -> int:
    """Return how many acked records are lost by a cause that is not known."""
    known = sum(loss.count for loss in verdict.losses)
    return max(0, counts_by_kind(verdict.anomalies).get(LOST, 0) - known)


def outcome_word(verdict: Verdict) -> OutcomeWord:
    """Return the outcome as people read it."""
    return word_of(verdict.outcome, verdict.prediction)


def word_of(outcome: Outcome, prediction: PredictionKind | None) -> OutcomeWord:
    """Return an outcome as people read it; see `outcome_word`."""
    return "no prediction" if (outcome, prediction) == ("as-predicted", "none") else outcome


def exit_code_of(verdict: Verdict, fail_on: FailOn = "outcome") -> ExitCode:
    """Return the exit code of one judged run.

    With `fail_on` loss, a run that is as predicted fails if it lost committed records.
    """
    code = EXIT_OF_OUTCOME[verdict.outcome]
    if fail_on == "loss" and code is ExitCode.AS_PREDICTED and count_committed_lost(verdict):
        return ExitCode.CONTRADICTED
    return code


def exit_code_sentence(verdict: Verdict, fail_on: FailOn) -> str | None:
    """Return why a run that lost committed records passes or fails a command, where its outcome does not say so."""
    lost = count_committed_lost(verdict)
    if not lost or verdict.outcome != "as-predicted":
        return None
    if fail_on == "loss":
        return f"exit code 1: --fail-on loss, and {plural(lost, 'committed record')} lost"
    return "exit code 0: nothing was predicted; with --fail-on loss it is 1" if verdict.prediction == "none" else None


def allows_everything(prediction: Prediction) -> bool:
    """Whether a prediction only names releases, so that no run can break it."""
    return prediction == Prediction(kafka=prediction.kafka, clause=prediction.clause, features=prediction.features)


def is_loss_allowed(losses: Sequence[Loss], properties: Sequence[PropertyResult]) -> bool | None:
    """Whether the protocol allows the committed losses; None if there are none, or if that is not known."""
    if not any(loss.committed for loss in losses):
        return None
    if any(loss.committed and loss.cause == "unexplained" for loss in losses):
        return False
    status = next((one.status for one in properties if one.name == NO_COMMITTED_LOSS), "unknown")
    return {"holds": True, "violated": False}.get(status)


def loss_sentences(verdict: Verdict) -> str | None:
    """Return what a run lost that nobody predicted, and whether the protocol allows it; None if it lost nothing."""
    committed = lost_counts(verdict).committed
    if verdict.prediction == "made" or not committed:
        return None
    if count_lost_without_cause(verdict):
        lost = sum(lost_counts(verdict))
        return f"{plural(lost, 'acked record')} {'was' if lost == 1 else 'were'} lost; not all causes are known."
    allowed = PROTOCOL_SAYS[verdict.loss_allowed]
    return f"{plural(committed, 'committed record')} {'was' if committed == 1 else 'were'} lost. {allowed}"


def next_command(record: str, manifest: Manifest, verdict: Verdict) -> str:
    """Return what to type to learn more: the story of the first lost record, or all of a verdict that needs an eye.

    After a watch without the metadata log, no command knows more: the next watch can. The error of a failed run says
    what to do after it. `record` is the path or the address of the run record.
    """
    watch = manifest.watch
    if watch is not None and watch.why_log_ends == NO_CONTROLLERS_NAMED:
        return "ebbtide watch --bootstrap HOST:PORT --controllers HOST:PORT --for 30m    (the metadata log says why)"
    if manifest.failure_next is not None and verdict.outcome == "inconclusive":
        return manifest.failure_next
    if (failed := failed_file(verdict)) is not None:
        return f"ebbtide analyze {shlex.quote(record)} {failed}    (when the file is correct)"
    if "://" not in record and (any(lost_counts(verdict)) or verdict.first_own_loss is not None):
        return f"ebbtide explain {shlex.quote(record)}    (its first lost record, step by step)"
    if verdict.outcome == "as-predicted":
        return "ebbtide scenarios    (other ways to break a cluster)"
    show = "hadoop fs -cat" if "://" in record else "cat"
    return f"{show} {shlex.quote(f'{record}/{VERDICT}')}    (the whole verdict)"


class AnalyzedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record that was judged, or why it was not: `failure`, with the exit code that `ebbtide analyze` gives it.

    `can_judge` is false if no record can be judged, because Spark does not start.
    """

    record: str
    outcome: Outcome | None = None
    exit_code: int
    failure: str | None = None
    can_judge: bool = True
