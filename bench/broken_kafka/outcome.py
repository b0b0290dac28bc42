"""What became of a planted bug: from the verdict on its run, and from the lines that the agent wrote."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from bench.broken_kafka.agent import MARK
from ebbtide.record.verdict import Verdict

Caught = Literal["clause", "prediction", "half", "missed", "did not act", "clean"]
IN_WORDS: dict[Caught, str] = {
    "clause": "caught by a clause: it holds for each schedule",
    "prediction": "caught by a scenario's prediction only: a random schedule has none",
    "half": "the run was inconclusive, or the harness failed: no pass, but no finding either",
    "missed": "the run ended as predicted",
    "did not act": "the bug changed nothing in this run",
    "clean": "the control, in which nothing is planted, ended as predicted",
}

_KNOWN = "known of this release: "
_BY_CLAUSE = (" is violated: ", " against the protocol")


def count_of_acts(record: Path) -> int:
    """Return how often the bug acted at least, by the logs of the record's nodes."""
    return sum(_acts_in(log) for log in sorted((record / "logs").glob("*.log.gz")))


def _acts_in(log: Path) -> int:
    """A node writes a line at 1, 10, 100 and so on; it begins again when it starts."""
    total = at_most = 0
    with gzip.open(log, "rt", errors="replace") as lines:
        for line in lines:
            words = line.split()
            if words[:1] != [MARK] or "acted" not in words:
                continue
            count = int(words[-1])
            total, at_most = (total + at_most, count) if count <= at_most else (total, count)
    return total + at_most


def failures_in(record: Path) -> list[str]:
    """Return the agent's own failures, by the logs of the record's nodes."""
    found = []
    for log in sorted((record / "logs").glob("*.log.gz")):
        with gzip.open(log, "rt", errors="replace") as lines:
            found += [line.strip() for line in lines if line.startswith(MARK) and " failed: " in line]
    return found


def classify(verdict: Verdict | None, acts: int, *, is_control: bool = False) -> Caught:
    """Return what became of a bug that acted so often; no verdict: the harness or the judge failed."""
    if acts == 0 and not is_control:
        return "did not act"
    if verdict is None or verdict.outcome == "inconclusive":
        return "half"
    if verdict.outcome == "as-predicted" or any(sentence.startswith(_KNOWN) for sentence in verdict.why):
        return "clean" if is_control else "missed"
    return "clause" if _clauses(verdict.why) else "prediction"


def seen_by(verdict: Verdict | None) -> str:
    """Return in a few words what the verdict rests on; empty if the run ended as predicted."""
    if verdict is None:
        return "no verdict"
    if verdict.outcome == "as-predicted":
        return ""
    violated = [one.name for one in verdict.properties if one.status == "violated"]
    if verdict.outcome == "contradicted" and violated and _clauses(verdict.why):
        return ", ".join(violated)
    return next(iter(_clauses(verdict.why) or verdict.why), "")


def _clauses(why: Sequence[str]) -> list[str]:
    return [sentence for sentence in why if any(words in sentence for words in _BY_CLAUSE)]
