"""Says what the specification says of a run, for the row `protocol`."""

from __future__ import annotations

from analysis.judge.outcome.prediction import known_bug_of
from analysis.record.record import Record
from analysis.record.whole import ended_before_sending
from ebbtide.record.outcomes import PROTOCOL_SAYS, allows_everything, count_lost_without_cause
from ebbtide.record.properties import needed_unknown_clauses
from ebbtide.record.verdict import Verdict
from ebbtide.rules.table import NO_COMMITTED_LOSS
from ebbtide.scenario.model import Prediction

_ALLOWS = "allows the loss"
_CANNOT_TELL = "cannot tell"


def protocol_of(record: Record, verdict: Verdict) -> str:
    """Return what the specification says of a judged record, as `protocol_row`.

    Of a run that ended before it sent a record every clause is unknown, so none is named.
    """
    if verdict.outcome == "inconclusive" and ended_before_sending(record, verdict.counts):
        return _CANNOT_TELL
    return protocol_row(verdict, record.prediction)


def protocol_row(verdict: Verdict, prediction: Prediction | None) -> str:
    """Return what the specification says of the run, a line a clause; rules of the user are none of its clauses.

    It ignores what the scenario predicted. Nothing is violated only where every clause that is
    needed is known; `prediction` says which clauses are.
    """
    if not verdict.properties:
        return _CANNOT_TELL
    own = {rule.name for rule in verdict.own_rules}
    violated = [one.name for one in verdict.properties if one.status == "violated" and one.name not in own]
    unknown = [name for name in needed_unknown_clauses(verdict, prediction) if name not in own]
    if (no_cause := count_lost_without_cause(verdict)) and NO_COMMITTED_LOSS not in unknown:
        unknown.append(f"why {no_cause:,} record{'s are' if no_cause > 1 else ' is'} lost")
    lines = []
    if violated:
        lines = ["violated:", *violated]
    elif any(loss.cause == "unexplained" for loss in verdict.losses):
        lines = ["does not allow the loss"]
    elif any(loss.committed for loss in verdict.losses) and NO_COMMITTED_LOSS not in unknown:
        lines = [_ALLOWS]
    elif not unknown:
        lines = ["nothing violated"]
    return "\n".join([*lines, *([f"{_CANNOT_TELL}:", *unknown] if unknown else [])])


def own_rules(verdict: Verdict) -> str:
    """Return what rules of the user found, a line a rule; empty where the record was judged without one."""
    found = {one.name: one.status for one in verdict.properties}
    return "\n".join(f"{one.name}: {found[one.name]}" for one in verdict.own_rules if one.name in found)


def outcome_basis(verdict: Verdict, prediction: Prediction | None) -> str:
    """Return the sentence below the headline: why the run ended with this outcome; empty if nothing says it."""
    if verdict.outcome != "as-predicted":
        bug = known_bug_of(verdict.why)
        finding = f". This is a known bug of the release: {bug}." if bug is not None else ""
        return f"Why: {verdict.why[0]}{finding}" if verdict.why else ""
    if prediction is None:
        return ""
    if verdict.prediction == "none" or allows_everything(prediction):
        return "The scenario has no prediction. By the protocol alone, nothing in the run is a violation."
    said = f"The scenario predicts this for the release: {prediction.clause.rstrip('.')}."
    allowed = protocol_row(verdict, prediction) == _ALLOWS
    return f"{said} {PROTOCOL_SAYS[True]}" if allowed else said


def as_one_line(cell: str) -> str:
    """Return a cell of several lines as one line."""
    return cell.replace(":\n", ": ").replace("\n", "; ")
