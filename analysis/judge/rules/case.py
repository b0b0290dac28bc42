"""What the clauses look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from analysis.judge.history.attributed import (
    AttributedAnomaly,
    FallenHw,
    LostCommit,
    LostRecords,
    RepeatedInput,
    VanishedPart,
)
from analysis.judge.history.evidence import Evidence
from analysis.judge.trace.results import TimelineTrace
from analysis.record.record import Record
from analysis.record.whole import Gap
from ebbtide.record.manifest import Manifest
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.model import CopiedOffsets

if TYPE_CHECKING:
    from analysis.judge.history.answers import ComparedAnswers
    from analysis.reconcile.model import AbortedReads, Duplicates, HangingTransaction, WrongCopies


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """What the checks look at: facts, losses and regressions with their causes.

    `trace` checks the metadata log against the model, and `answers` compares what brokers described
    with it. Both are computed when first asked for. `why_unverified` says why leaders did not ask coordinators
    about transactions; None: they did.
    """

    record: Record
    manifest: Manifest
    evidence: Evidence
    trace: Callable[[], TimelineTrace]
    answers: Callable[[], ComparedAnswers | None]
    steps: list[StepEntry] | None
    controllers: tuple[int, ...] = ()
    session_timeout_s: float
    losses: Sequence[AttributedAnomaly[LostRecords]] = ()
    regressions: Sequence[AttributedAnomaly[FallenHw]] = ()
    vanished: Sequence[AttributedAnomaly[VanishedPart]] = ()
    duplicates: Sequence[Duplicates] = ()
    aborted_reads: Sequence[AbortedReads] = ()
    hanging: Sequence[HangingTransaction] = ()
    why_unverified: str | None = None
    copies: Sequence[WrongCopies] = ()
    repeats: Sequence[AttributedAnomaly[RepeatedInput]] = ()
    copies_sent: Mapping[str, int] = {}
    copied_offsets: Mapping[str, CopiedOffsets] | None = None
    commits: Sequence[AttributedAnomaly[LostCommit]] = ()
    acked: int = 0
    acked_commits: int = 0
    unchecked_commits: str | None = None
    failed: int = 0
    unknown_kinds: dict[str, str] = {}
    hw_observed: bool = False
    gaps: Sequence[Gap] = ()
