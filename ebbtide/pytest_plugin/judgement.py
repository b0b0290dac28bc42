"""Whether a judged run lets its test pass, and if not, what to say."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ebbtide.pytest_plugin.run_record import RunRecord, prediction_of

if TYPE_CHECKING:
    from ebbtide.record.verdict import Loss

_HARMLESS = "uncommitted-at-failover"
"""What every acks=0 or acks=1 producer has to live with; it is wrong only where a prediction or the test says so."""
_SHOWN_MAX = 20


def complaint(run: RunRecord, expected: Sequence[str] | None) -> str | None:
    """Why the test fails; None: it does not.

    An inconclusive run proves nothing, and is its own kind of failure. With `expected` causes, properties, coverage
    facts and kinds of anomaly the run must show one of them, and nothing else that is wrong.
    """
    if run.outcome == "inconclusive":
        return "\n".join([f"inconclusive: {_first(run.verdict.why)}", *_rest(run, told=1)])
    if expected is not None:
        return _unexpected(run, expected)
    if run.outcome == "as-predicted":
        return None
    return "\n".join([f"contradicted: {_first(run.verdict.why)}", *_rest(run, told=1)])


def expectable() -> tuple[Sequence[str], Sequence[str]]:
    """What `expected` may name: causes; then properties, coverage facts, and kinds of anomaly that have no cause."""
    from typing import get_args

    from ebbtide.record.predicted import APART
    from ebbtide.record.properties import PROPERTY_NAMES
    from ebbtide.record.verdict import KINDS, Cause
    from ebbtide.scenario.facts import FACTS

    kinds = [kind for kind in KINDS if kind not in APART]
    return get_args(Cause), [*PROPERTY_NAMES, *FACTS, *kinds]


def facts(run: RunRecord) -> list[tuple[str, str | int]]:
    """What JUnit XML and other reports are told."""
    from ebbtide.record.verdict import count_acked_by_brokers

    causes = dict.fromkeys(loss.cause for loss in run.verdict.losses)
    replayed = [] if run.fidelity is None else [("ebbtide_fidelity", f"{run.fidelity:.2f}")]
    return [
        ("ebbtide_outcome", run.outcome),
        ("ebbtide_record", str(run.path)),
        ("ebbtide_kafka", run.kafka),
        ("ebbtide_seed", "unknown" if run.seed is None else run.seed),
        ("ebbtide_acked", count_acked_by_brokers(run.verdict.counts, run.verdict.coverage)),
        ("ebbtide_lost", run.lost),
        ("ebbtide_causes", ", ".join(causes)),
        *replayed,
    ]


def in_short(run: RunRecord) -> str:
    """One line on a run that is as it should be."""
    from ebbtide.record.verdict import count_acked_by_brokers

    acked = count_acked_by_brokers(run.verdict.counts, run.verdict.coverage)
    return f"{run.outcome}: Kafka {run.kafka}, {acked:,} acked, {run.lost:,} lost"


def where_to_look(run: RunRecord) -> list[str]:
    """The record, its report, and the command that has the run again."""
    replayed = [] if run.fidelity is None else [f"  replay: fidelity {run.fidelity:.2f} to the recorded run"]
    if run.ignored_properties:
        replayed.append(
            f"  without effect, since Kafka {run.kafka} does not know them: {', '.join(run.ignored_properties)}"
        )
    return [
        *replayed,
        f"  record: {run.path}",
        f"  report: {run.path / 'report.html'}",
        f"  next:   ebbtide replay {shlex.quote(str(run.path))}",
    ]


def _unexpected(run: RunRecord, expected: Sequence[str]) -> str | None:
    found = _wrongs(run, expected)
    others = [one for one in found if one not in expected]
    if found and not others:
        return None
    wanted = ", ".join(expected)
    if not found:
        beside = f" but by {_HARMLESS}" if run.lost else ""
        unknown = _unknown(run)
        heading = f"not violated: expected {wanted}, and nothing was lost{beside} or violated"
        if unknown:
            heading = f"inconclusive: expected {wanted}, which did not show, and unknown: {', '.join(unknown)}"
    elif len(others) < len(found):
        heading = f"contradicted: expected {wanted} only, and there also was {', '.join(others)}"
    else:
        heading = f"contradicted: expected {wanted}, and there was {', '.join(others)}"
    return "\n".join([heading, *_rest(run, told=0)])


def _wrongs(run: RunRecord, expected: Sequence[str]) -> list[str]:
    """Causes of what was lost or went back, violated properties, and what else the scenario's prediction rules out."""
    from ebbtide.record.predicted import findings_ruled_out
    from ebbtide.record.verdict import counts_by_kind

    verdict, prediction = run.verdict, prediction_of(run)
    causes = [loss.cause for loss in verdict.losses]
    if _HARMLESS not in expected and (prediction is None or prediction.loss.uncommitted != "none"):
        causes = [cause for cause in causes if cause != _HARMLESS]
    causes += [one.cause for one in verdict.regressions if one.cause != _HARMLESS]
    violated = [one.name for one in verdict.properties if one.status == "violated"]
    others = {}
    if prediction is not None:
        others = findings_ruled_out(prediction, facts=verdict.coverage, kinds=counts_by_kind(verdict.anomalies))
    return list(dict.fromkeys([*map(str, causes), *violated, *others]))


def _unknown(run: RunRecord) -> list[str]:
    """The properties that are needed and could not be decided."""
    from ebbtide.record.properties import needed_unknown_clauses

    return needed_unknown_clauses(run.verdict, prediction_of(run))


def _first(sentences: Sequence[str]) -> str:
    return sentences[0] if sentences else "no reason is given"


def _rest(run: RunRecord, *, told: int) -> list[str]:
    """The reasons but for the first ones that are told already, the losses, worst first, and where to look on."""
    losses = sorted(run.verdict.losses, key=lambda loss: -loss.count)
    lines = [f"  - {sentence}" for sentence in run.verdict.why[told:_SHOWN_MAX]]
    lines += [f"  lost:   {_told(loss)}" for loss in losses[:_SHOWN_MAX]]
    if len(losses) > _SHOWN_MAX:
        lines.append(f"  lost:   and {len(losses) - _SHOWN_MAX} more like these")
    return [*lines, *where_to_look(run)]


def _told(loss: Loss) -> str:
    kind = "committed" if loss.committed else "uncommitted"
    election = loss.election
    by = (
        f", by the election of broker {election.leader} in leader epoch {election.leader_epoch}"
        if election is not None
        else ""
    )
    return (
        f"{loss.count:,} {kind} of {loss.topic}-{loss.partition}, first at offset {loss.first_offset}, "
        f"last at {loss.last_offset}; cause: {loss.cause}{by}"
    )
