"""What the clauses look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from analysis.judge.history.answers import CompareAnswers, ComparedAnswers
from analysis.judge.history.evidence import AnyAnomaly, AttributedAnomaly, blamed_of
from analysis.judge.history.sent import CountCopies
from analysis.judge.trace.of_run import trace_of
from analysis.judge.trace.results import TimelineTrace
from analysis.record.record import Record
from ebbtide.rules.table import HW_REGRESSION

if TYPE_CHECKING:
    from analysis.reconcile.model import G, Reconciliation


class Judged:
    """A record, what the reconciliation found in it, and the anomalies that have a cause.

    - `record`: the record and what is read from it.
    - `found`: the anomalies of each kind, counted.
    - `blamed`: the anomalies that elections or disks may explain, each with its attribution.
    """

    def __init__(self, record: Record, found: Reconciliation, blamed: Sequence[AnyAnomaly]) -> None:
        self.record = record
        self.found = found
        self.blamed = tuple(blamed)

    @cached_property
    def unknown(self) -> Mapping[str, str]:
        """Why kinds of anomalies are not known, or not everywhere."""
        # A HW that had not gone back when a run ended early might have done so later.
        early = {} if self.record.manifest.status == "complete" else {HW_REGRESSION: "the run ended early"}
        return {**early, **self.found.unknown}

    @cached_property
    def trace(self) -> TimelineTrace:
        """The metadata log, held against the model."""
        return trace_of(self.record)

    @cached_property
    def answers(self) -> ComparedAnswers | None:
        """What brokers described, compared with the metadata log; None: they described nothing."""
        return self.record.seen(CompareAnswers)

    @cached_property
    def copies_sent(self) -> Mapping[str, int]:
        """How many records the copiers of each group sent."""
        return self.record.seen(CountCopies)

    def blamed_of(self, sort: type[G]) -> list[AttributedAnomaly[G]]:
        """Return the anomalies whose items are groups of one sort."""
        return blamed_of(self.blamed, sort)
