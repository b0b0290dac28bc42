"""Decides whether a judged run lets its test pass, and explains a failure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ebbtide.pytest_plugin.run_record import RunRecord, prediction_of
from ebbtide.shown_text import plural

if TYPE_CHECKING:
    from ebbtide.record.verdict import Loss

_HARMLESS = "uncommitted-at-failover"
"""Every acks=0 or acks=1 producer may lose records this way; only a prediction or the test forbids it."""
_SHOWN_MAX = 20


def failure_message(run: RunRecord, expected: Sequence[str] | None) -> str | None:
    """Return why the test fails, or None if it passes.

    An inconclusive run is a failure of its own kind. `expected` has causes, properties, coverage facts and kinds of
    anomaly: the run must show one of them, and nothing else that is wrong.
    """
    if run.outcome == "inconclusive":
        return "\n".join([f"inconclusive: {_first(run.verdict.why)}", *_details(run, skip=1)])
    if expected is not None:
        return _mismatch_message(run, expected)
    if run.outcome == "as-predicted":
        return None
    return "\n".join([f"contradicted: {_first(run.verdict.why)}", *_details(run, skip=1)])


def allowed_expectations() -> tuple[Sequence[str], Sequence[str]]:
    """Return the names that `expected` allows.

    Causes come first, then properties, facts and kinds of anomaly.
    """
    from typing import get_args

    from ebbtide.record.verdict import Cause
    from ebbtide.rules.table import ANOMALIES, CLAUSES
    from ebbtide.scenario.facts import FACTS

    kinds = [kind for kind, row in ANOMALIES.items() if not row.has_own_prediction]
    return get_args(Cause), [*CLAUSES, *FACTS, *kinds]


def report_properties(run: RunRecord) -> list[tuple[str, str | int]]:
    """Return the properties of the run for JUnit XML and other reports."""
    from ebbtide.record.outages import service_figures
    from ebbtide.record.verdict import count_acked_by_brokers

    causes = dict.fromkeys(loss.cause for loss in run.verdict.losses)
    replayed = [] if run.fidelity is None else [("ebbtide_fidelity", f"{run.fidelity:.2f}")]
    return [
        ("ebbtide_outcome", run.outcome),
        ("ebbtide_record", str(run.path)),
        ("ebbtide_kafka", run.shown_kafka),
        ("ebbtide_seed", "unknown" if run.seed is None else run.seed),
        ("ebbtide_acked", count_acked_by_brokers(run.verdict.counts, run.verdict.coverage)),
        ("ebbtide_lost", run.lost),
        ("ebbtide_lost_committed", run.lost_committed),
        ("ebbtide_causes", ", ".join(causes)),
        *([] if run.own_acked is None else [("ebbtide_own_acked", run.own_acked), ("ebbtide_own_lost", run.own_lost)]),
        *([("ebbtide_own", run.own)] if run.own else []),
        *((f"ebbtide_{name}", text) for name, text in service_figures(run.verdict).items()),
        *replayed,
    ]


def one_line_summary(run: RunRecord) -> str:
    """Return one line about a run that is as predicted."""
    from ebbtide.record.outcomes import outcome_word
    from ebbtide.record.verdict import count_acked_by_brokers

    acked = count_acked_by_brokers(run.verdict.counts, run.verdict.coverage)
    own = f"; {run.own}" if run.own else ""
    return f"{outcome_word(run.verdict)}: Kafka {run.shown_kafka}, {acked:,} acked, {lost_text(run)}{own}"


def lost_text(run: RunRecord) -> str:
    """Return how many records are lost, and which of them the protocol promises to keep."""
    if not run.lost:
        return "0 lost"
    return f"{run.lost_committed:,} committed and {run.lost_uncommitted:,} uncommitted lost"


def where_to_look(run: RunRecord, *, has_failed: bool = True) -> list[str]:
    """Return the rules if they are not the release's own, the record, its report, and the commands that go on."""
    rules = run.verdict.judged_by(run.kafka)
    replayed = [] if run.fidelity is None else [f"  replay: fidelity {run.fidelity:.2f} to the recorded run"]
    if run.ignored_properties:
        replayed.append(
            f"  ignored, because Kafka {run.shown_kafka} does not know them: {', '.join(run.ignored_properties)}"
        )
    # Nobody recorded how to break a cluster that was only watched, or how to run the test's own clients.
    replay = None if run.watched else f"ebbtide replay {shlex.quote(str(run.path))}"
    again = replay if run.own_acked is None else "pytest -x --lf" if has_failed else None
    return [
        *([f"  judged: by {rules}"] if rules else []),
        *replayed,
        f"  record: {run.path}",
        f"  report: {run.path / 'report.html'}",
        f"  next:   {run.next}",
        *([] if again is None else [f"  again:  {again}"]),
    ]


def _mismatch_message(run: RunRecord, expected: Sequence[str]) -> str | None:
    found = _violations(run, expected)
    others = [one for one in found if one not in expected]
    if found and not others:
        return None
    wanted = ", ".join(expected)
    if not found:
        except_harmless = f" except by {_HARMLESS}" if run.lost else ""
        unknown = _undecided_properties(run)
        heading = f"not violated: expected {wanted}, and nothing was lost{except_harmless} or violated"
        if unknown:
            heading = f"inconclusive: expected {wanted}, which did not happen; undecided: {', '.join(unknown)}"
    elif len(others) < len(found):
        heading = f"contradicted: expected only {wanted}, but the run also shows {', '.join(others)}"
    else:
        heading = f"contradicted: expected {wanted}, but the run shows {', '.join(others)}"
    return "\n".join([heading, *_details(run, skip=0)])


def _violations(run: RunRecord, expected: Sequence[str]) -> list[str]:
    """Return the causes of anomalies, violated properties and broken predictions.

    The anomalies are losses and HW regressions.
    """
    from ebbtide.record.predictions import findings_ruled_out
    from ebbtide.record.verdict import counts_by_kind

    verdict, prediction = run.verdict, prediction_of(run)
    causes: list[str] = [loss.cause for loss in verdict.losses]
    if _HARMLESS not in expected and (prediction is None or prediction.loss.uncommitted != "none"):
        causes = [cause for cause in causes if cause != _HARMLESS]
    causes += [one.cause for one in verdict.regressions if one.cause != _HARMLESS]
    # What Kafka allows of a producer of the test's own is what the test is about.
    causes += [_HARMLESS for one in verdict.own_losses if one.acks != -1]
    violated = [one.name for one in verdict.properties if one.status == "violated"]
    broken = {}
    if prediction is not None:
        broken = findings_ruled_out(prediction, facts=verdict.coverage, kinds=counts_by_kind(verdict.anomalies))
    return list(dict.fromkeys([*map(str, causes), *violated, *broken]))


def _undecided_properties(run: RunRecord) -> list[str]:
    """Return the needed properties that could not be decided."""
    from ebbtide.record.properties import needed_unknown_clauses

    return needed_unknown_clauses(run.verdict, prediction_of(run))


def _first(sentences: Sequence[str]) -> str:
    return sentences[0] if sentences else "the verdict gives no reason"


def _details(run: RunRecord, *, skip: int) -> list[str]:
    """Return the reasons after the first `skip`, the losses, and where to look.

    The worst losses come first.
    """
    losses = sorted(run.verdict.losses, key=lambda loss: -loss.count)
    lines = [f"  - {sentence}" for sentence in run.verdict.why[skip:_SHOWN_MAX]]
    lines += [f"  lost:   {_describe_loss(loss)}" for loss in losses[:_SHOWN_MAX]]
    if len(losses) > _SHOWN_MAX:
        lines.append(f"  lost:   and {plural(len(losses) - _SHOWN_MAX, 'more loss', 'more losses')}")
    return [*lines, *where_to_look(run)]


def _describe_loss(loss: Loss) -> str:
    kind = "committed" if loss.committed else "uncommitted"
    by = f", by the election of {loss.election}" if loss.election is not None else ""
    return (
        f"{loss.count:,} {kind} of {loss.topic}-{loss.partition}, first at offset {loss.first_offset}, "
        f"last at {loss.last_offset}; cause: {loss.cause}{by}"
    )


def is_slip(error: BaseException) -> bool:
    """Whether a test failed because its own code is wrong, such as by a name that nothing has: no fault made it so."""
    from ebbtide.daemon.messages import ImpossibleNow
    from ebbtide.errors import UsageError
    from ebbtide.pytest_plugin.kafka_cluster import NoSuchStep

    slips = (NoSuchStep, UsageError, NameError, ImportError)
    return isinstance(error, slips) and not isinstance(error, ImpossibleNow)
