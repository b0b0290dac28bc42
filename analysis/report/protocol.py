"""What the specification says of a run, as the row `protocol` has it."""

from __future__ import annotations

from ebbtide.record.properties import NO_COMMITTED_LOSS, needed_and_unknown
from ebbtide.record.verdict import Verdict, counts_by_kind
from ebbtide.scenario.model import Prediction


def protocol(verdict: Verdict, prediction: Prediction | None) -> str:
    """What the specification says of the run, whatever its scenario predicted; a line a clause.

    Nothing is violated only where every clause that is needed is known; `prediction` says which are.
    """
    if not verdict.properties:
        return "cannot tell"
    violated = [one.name for one in verdict.properties if one.status == "violated"]
    unknown = needed_and_unknown(verdict, prediction)
    lost = counts_by_kind(verdict.anomalies).get("lost", 0)
    if (no_cause := lost - sum(loss.count for loss in verdict.losses)) > 0 and NO_COMMITTED_LOSS not in unknown:
        unknown.append(f"why {no_cause:,} record{'s are' if no_cause > 1 else ' is'} lost")
    lines = []
    if violated:
        lines = ["violated:", *violated]
    elif any(loss.cause == "unexplained" for loss in verdict.losses):
        lines = ["does not allow the loss"]
    elif any(loss.committed for loss in verdict.losses) and NO_COMMITTED_LOSS not in unknown:
        lines = ["allows the loss"]
    elif not unknown:
        lines = ["nothing violated"]
    return "\n".join([*lines, *(["cannot tell:", *unknown] if unknown else [])])


def in_a_line(cell: str) -> str:
    """A cell of several lines as one."""
    return cell.replace(":\n", ": ").replace("\n", "; ")
