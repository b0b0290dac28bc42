"""Lists every clause that is checked: its name, its KIP and its check.

A check that throws leaves its clause unknown; the clause never passes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from analysis.evidence.remaking import TIMELINE
from analysis.evidence.wholeness import OF_LOSSES, Gap
from analysis.judge.clauses import partition_checks as states
from analysis.judge.clauses.api_check import ComparedAnswers, api_agrees_with_log
from analysis.judge.clauses.broker_checks import no_join_with_an_old_broker_epoch, unclean_broker_leaves_isr_and_elr
from analysis.judge.clauses.client_checks import no_aborted_read, no_duplicate_of_an_idempotent_producer
from analysis.judge.clauses.copy_checks import exactly_once_copies
from analysis.judge.clauses.findings import Finding, unknown_finding
from analysis.judge.clauses.hw_check import hw_frozen_below_min_isr
from analysis.judge.clauses.outcome_checks import (
    AttributedAnomaly,
    FallenHw,
    LostCommit,
    LostRecords,
    RepeatedInput,
    VanishedPart,
    no_acked_commit_lost_unless_allowed,
    no_committed_loss_unless_allowed,
    no_hw_regression_unless_allowed,
    stale_join_rows,
)
from analysis.judge.clauses.quorum_check import metadata_log_keeps_what_it_committed
from analysis.judge.clauses.trace_check import every_transition_allowed
from analysis.judge.clauses.transaction_checks import no_hanging_transaction, why_lossy
from analysis.judge.clauses.witness_check import witness_agrees
from analysis.judge.history.evidence import Evidence
from analysis.judge.trace.results import TimelineTrace
from ebbtide.record.files import WITNESS_DIR
from ebbtide.record.manifest import Manifest
from ebbtide.record.properties import CHECKER_FAILED
from ebbtide.record.steps import StepEntry
from ebbtide.record.verdict import PropertyResult
from ebbtide.scenario.model import CopiedOffsets
from ebbtide.scenario.property_names import (
    API_AGREES,
    COMMITS_KEPT,
    ELECTION_RECOVERING,
    ELR_BELOW_MIN_ISR,
    EXACTLY_ONCE,
    HW_FROZEN,
    ISR_ELR_DISJOINT,
    LEADER_EPOCH,
    LEADER_IN_ISR,
    METADATA_KEPT,
    NO_ABORTED_READ,
    NO_COMMITTED_LOSS,
    NO_DUPLICATE,
    NO_HANGING_TRANSACTION,
    NO_HW_REGRESSION,
    NO_STALE_JOIN,
    PARTITION_EPOCH,
    RECOVERING_ELECTION,
    RECOVERING_ISR,
    TRANSITIONS,
    UNCLEAN_LEAVES,
    WITNESS_AGREES,
)

if TYPE_CHECKING:
    from analysis.reconcile.model import AbortedReads, Duplicates, HangingTransaction, WrongCopies

LOST_COMMITS = ("commit-lost", "commit-back")
EVIDENCE_ROWS_MAX = 20
"""How many rows of evidence a property shows; the status counts all rows."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """What the checks look at: facts, losses and regressions with their causes.

    `trace` checks the metadata log against the model, and `answers` compares what brokers described
    with it. Both are computed when first asked for. `why_unverified` says why leaders did not ask coordinators
    about transactions; None: they did.
    """

    record: Path
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


class Clause(msgspec.Struct, frozen=True, kw_only=True):
    """A clause of a KIP and its check. `text` is what the KIP says.

    `timeline`: it cannot be checked without partitions.parquet. `parts` are the parts of the record
    that it is checked on; where one of them has a gap, the clause is unknown.
    """

    name: str
    kip: str
    text: str
    timeline: bool
    parts: frozenset[str]
    check: Callable[[Case], Finding]


def _clause(
    name: str,
    kip: str,
    said_by: Callable[..., Finding],
    check: Callable[[Case], Finding],
    *,
    timeline: bool = True,
    parts: Collection[str] = (),
) -> Clause:
    text = " ".join((said_by.__doc__ or "").partition("\n\n")[0].split())
    of_all = {*TIMELINE, "manifest", "steps", "scenario", "evidence"}
    return Clause(name=name, kip=kip, text=text, timeline=timeline, parts=frozenset({*of_all, *parts}), check=check)


def _on_states(name: str, kip: str, check: Callable[[Evidence], Finding]) -> Clause:
    return _clause(name, kip, check, lambda case: check(case.evidence))


CLAUSES: tuple[Clause, ...] = (
    _clause(
        NO_COMMITTED_LOSS,
        "KIP-966",
        no_committed_loss_unless_allowed,
        lambda case: no_committed_loss_unless_allowed(
            case.losses, case.vanished, acked=case.acked, lost_unknown=case.unknown_kinds.get("lost")
        ),
        timeline=False,
        parts=OF_LOSSES,
    ),
    _clause(
        NO_HW_REGRESSION,
        "KIP-966",
        no_hw_regression_unless_allowed,
        lambda case: no_hw_regression_unless_allowed(
            case.regressions, observed=case.hw_observed, regression_unknown=case.unknown_kinds.get("hw-regression")
        ),
        timeline=False,
        parts=OF_LOSSES,
    ),
    _clause(
        NO_ABORTED_READ,
        "KIP-98",
        no_aborted_read,
        lambda case: no_aborted_read(
            case.aborted_reads,
            case.manifest,
            failed=case.failed,
            why_lossy=why_lossy(case.evidence, case.steps),
            unknown_kinds=case.unknown_kinds,
        ),
        timeline=False,
        parts=OF_LOSSES,
    ),
    _clause(
        NO_DUPLICATE,
        "KIP-98",
        no_duplicate_of_an_idempotent_producer,
        lambda case: no_duplicate_of_an_idempotent_producer(
            case.duplicates, case.manifest, unknown_kinds=case.unknown_kinds
        ),
        timeline=False,
        parts=OF_LOSSES,
    ),
    _clause(
        HW_FROZEN,
        "KIP-966",
        hw_frozen_below_min_isr,
        lambda case: hw_frozen_below_min_isr(
            case.record, case.evidence, case.steps, case.controllers, case.session_timeout_s
        ),
        parts=("watermarks",),
    ),
    _on_states(ISR_ELR_DISJOINT, "KIP-966", states.isr_elr_disjoint),
    _on_states(ELR_BELOW_MIN_ISR, "KIP-966", states.elr_only_below_min_isr),
    _clause(
        UNCLEAN_LEAVES,
        "KIP-966",
        unclean_broker_leaves_isr_and_elr,
        lambda case: unclean_broker_leaves_isr_and_elr(case.evidence, case.steps),
    ),
    _on_states(LEADER_IN_ISR, "KIP-966", states.leader_in_isr),
    _on_states(RECOVERING_ISR, "KIP-704", states.recovering_has_an_isr_of_one),
    _on_states(RECOVERING_ELECTION, "KIP-704", states.recovering_begins_with_an_election),
    _on_states(ELECTION_RECOVERING, "KIP-704", states.election_outside_candidates_shows_recovering),
    _clause(
        NO_STALE_JOIN,
        "KIP-903",
        no_join_with_an_old_broker_epoch,
        lambda case: no_join_with_an_old_broker_epoch(case.evidence, stale_join_rows([*case.losses, *case.vanished])),
        parts=OF_LOSSES,
    ),
    _clause(
        TRANSITIONS,
        "KIP-966/704/903",
        every_transition_allowed,
        lambda case: every_transition_allowed(case.trace()),
    ),
    _clause(
        API_AGREES,
        "KIP-966",
        api_agrees_with_log,
        lambda case: api_agrees_with_log(case.answers(), case.evidence),
        parts=("described",),
    ),
    _on_states(PARTITION_EPOCH, "KIP-631", states.partition_epoch_rises_by_one),
    _on_states(LEADER_EPOCH, "KIP-631", states.leader_epoch_rises_by_one),
    _clause(
        METADATA_KEPT,
        "KIP-595",
        metadata_log_keeps_what_it_committed,
        lambda case: metadata_log_keeps_what_it_committed(case.record, case.manifest, case.steps),
        timeline=False,
        parts=("quorum",),
    ),
)


WITNESS = _clause(
    WITNESS_AGREES,
    "harness",
    witness_agrees,
    lambda case: witness_agrees(case.record, case.manifest),
    timeline=False,
    parts=(WITNESS_DIR, "polls"),
)
"""No clause of a KIP; checked only where the run had a witness."""


COMMITS = _clause(
    COMMITS_KEPT,
    "KIP-966",
    no_acked_commit_lost_unless_allowed,
    lambda case: no_acked_commit_lost_unless_allowed(
        [one for one in case.commits if one.what.settled],
        acked=case.acked_commits,
        unknown_kinds=sorted(
            {case.unknown_kinds[kind] for kind in LOST_COMMITS if kind in case.unknown_kinds}
            | {why for why in (case.unchecked_commits,) if why is not None}
        ),
    ),
    timeline=False,
    parts=(*OF_LOSSES, "commits"),
)
"""Checked only where the record has groups' commits."""


HANGING = _clause(
    NO_HANGING_TRANSACTION,
    "KIP-890",
    no_hanging_transaction,
    lambda case: no_hanging_transaction(
        case.hanging,
        case.manifest,
        why_unprotected=case.why_unverified,
        why_lossy=why_lossy(case.evidence, case.steps),
        unknown_kinds=case.unknown_kinds,
    ),
    timeline=False,
    parts=OF_LOSSES,
)
"""Checked only where a producer was transactional."""


COPIES = _clause(
    EXACTLY_ONCE,
    "KIP-98",
    exactly_once_copies,
    lambda case: exactly_once_copies(
        case.copies,
        sent=case.copies_sent,
        offsets=case.copied_offsets,
        why_lossy=why_lossy(case.evidence, case.steps),
        repeats=case.repeats,
        unknown_kinds=case.unknown_kinds,
    ),
    timeline=False,
    parts=(*OF_LOSSES, "copies", "commits"),
)
"""Checked only where the run had copiers."""


class CheckedClause(msgspec.Struct, frozen=True, kw_only=True):
    """A clause with what its check found.

    `found` is written to the verdict; `threw`: the check itself failed; `cases` counts all that it
    found.
    """

    found: PropertyResult
    threw: bool = False
    cases: int = 0

    @property
    def why(self) -> str:
        """Return the reason that the first evidence row carries, if any."""
        first = self.found.evidence[0] if self.found.evidence else {}
        return str(first.get("why", "")) if isinstance(first, dict) else ""


def check_all(case: Case, clauses: Sequence[Clause] = CLAUSES) -> list[CheckedClause]:
    """Check every clause on the case."""
    return [_check_clause(case, clause) for clause in clauses]


def _check_clause(case: Case, clause: Clause) -> CheckedClause:
    threw = False
    if clause.timeline and "partitions" in case.evidence.timeline.missing:
        watch = case.manifest.watch
        why = watch.why_log_ends if watch is not None else None
        found = unknown_finding(why or "the metadata timeline is missing (partitions.parquet)")
    elif gap := next((one for one in case.gaps if one.part in clause.parts), None):
        found = unknown_finding(gap.why)
    else:
        try:
            found = clause.check(case)
        except Exception as error:  # a check that throws must not cost the run its other results
            found, threw = unknown_finding(f"{CHECKER_FAILED}{type(error).__name__}: {error}"), True
    evidence = list(found.evidence[:EVIDENCE_ROWS_MAX])
    return CheckedClause(
        found=PropertyResult(name=clause.name, kip=clause.kip, status=found.status, evidence=evidence),
        threw=threw,
        cases=found.cases if found.cases is not None else len(found.evidence),
    )
