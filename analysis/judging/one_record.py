"""Judges one run record and writes the results.

The order is: evidence, reconciliation, causes, clauses, prediction. Only this module knows it.
Everything it writes (verdict.json, report.html, anomalies/) is derived: judging a record again replaces it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from analysis.causes.columns import RowsOfPartitions
from analysis.evidence.remaking import PARTS, Part, is_of_parts, parts_to_remake
from analysis.judge.causes.blame import (
    attributed,
    commit_losses_of,
    listed,
    losses_of,
    regressions_of,
)
from analysis.judge.coverage.client_facts import ReadPastElections
from analysis.judge.coverage.registry import coverage
from analysis.judge.coverage.restart_facts import GotAgain, LeftUnanswered
from analysis.judge.coverage.topic_facts import ReadAgain
from analysis.judge.coverage.transaction_facts import MarkerEpochs
from analysis.judge.doubts import why_unproven, without_doubtful_causes, without_doubtful_findings
from analysis.judge.history.answers import CompareAnswers
from analysis.judge.history.evidence import AnyAnomaly, AttributedAnomaly, blamed_of
from analysis.judge.history.sent import CountAckedSends, CountCopies
from analysis.judge.history.service_cells import ServiceCells
from analysis.judge.outcome.deciding import decide
from analysis.judge.outcome.prediction import (
    ObservedRun,
    compare,
    observed_sentence,
    prediction_reasons,
)
from analysis.judge.outcome.reasons import reasons_of, unproven_reasons
from analysis.judge.outcome.unavailable import time_without_service
from analysis.judge.own_producers import judge_own_producers, with_own_producers
from analysis.judge.rules.clause import CheckedClause, Judged, check_all
from analysis.judge.rules.own import own_rules_in_use
from analysis.judge.rules.registry import ANOMALIES, CLAUSES
from analysis.judge.trace.of_run import seen_actions
from analysis.reconcile.model import LostCommits, LostRange, VanishedRange
from analysis.record.clock_steps import StepsBack
from analysis.record.files import Missing
from analysis.record.protocol import judged_by
from analysis.record.record import Record
from analysis.record.scans import Scan
from analysis.record.whole import ended_before_sending, is_evidence_whole, is_raw_whole
from analysis.report.picture.series import ObservedOffsets
from ebbtide.record.files import JOURNAL_DIR, RAW_DIR, RecordFolder, check_ended
from ebbtide.record.manifest import ACKS_SPELLED
from ebbtide.record.outcomes import allows_everything, is_loss_allowed
from ebbtide.record.sums import forget_sums, update_sums, write_sums
from ebbtide.record.verdict import (
    PropertyStatus,
    Unavailability,
    Verdict,
    acks_0_summary,
    count_acked_by_brokers,
    counts_by_kind,
    write_verdict,
)
from ebbtide.rules.table import API_AGREES, COMMIT_LOST, LOST, TRANSITIONS, VANISHED
from ebbtide.untrusted.values import decoding

if TYPE_CHECKING:
    from analysis.reconcile.model import Reconciliation

SCANS: tuple[type[Scan[Any]], ...] = (
    CompareAnswers,
    CountAckedSends,
    CountCopies,
    GotAgain,
    LeftUnanswered,
    MarkerEpochs,
    ObservedOffsets,
    ReadAgain,
    ReadPastElections,
    ServiceCells,
    StepsBack,
    *dict.fromkeys(scan for clause in CLAUSES for scan in clause.scans),
)
"""What judging asks of the rows of a record, so that one pass over each table answers all of it."""


def prepare_record(folder: RecordFolder) -> Record:
    """Return the record in a folder, with its tables complete.

    Raises `UsageError` when it is not a record, or its run is still going.
    """
    check_ended(folder)
    record = complete_tables(Record.at(folder))
    own = [scan for one in own_rules_in_use() for scan in one.clause.scans]
    record.asked, record.asked_if_possible = tuple(dict.fromkeys((*SCANS, *own))), (RowsOfPartitions,)
    return record


def conclude(record: Record, reconciliation: Reconciliation) -> Verdict:
    """Write the verdict on a reconciled record, and return it."""
    verdict = verdict_of(record, reconciliation)
    write_verdict(record.folder, verdict)
    return verdict


def complete_tables(record: Record) -> Record:
    """Decode what an interrupted run left: its journals, and the logs under raw/. Return the record as it is then.

    `remaking.parts_to_remake` says which tables are made from raw/. They are made only from a raw/ that is as the run
    left it. evidence.json has a report of each part: where it is damaged, all parts are made again, or none.
    """
    folder, manifest = record.folder, record.manifest
    was_cut_short = folder.has_folder(JOURNAL_DIR)
    if was_cut_short:
        from ebbtide.journal.convert import convert_journals

        convert_journals(folder)
    parts = parts_to_remake(folder, record.sums, is_complete=manifest.status == "complete")
    can_be_made = parts and folder.has_folder(RAW_DIR) and (parts == PARTS or is_evidence_whole(record))
    remakes = bool(can_be_made) and is_raw_whole(record)
    if remakes:
        _remake(folder, parts, manifest.run_id)
    if was_cut_short and record.sums is None:
        write_sums(folder)
    # What was read before, such as the checksums, is not what the record has now.
    return Record(folder, manifest, record.manifest_keys) if was_cut_short or remakes else record


def _remake(record: RecordFolder, parts: Sequence[Part], run_id: str) -> None:
    """Make tables from raw/. They have no entry in SHA256SUMS meanwhile, so that an interrupted remake shows."""
    from analysis.evidence.collect import write_checkpoints, write_replicas, write_timeline
    from ebbtide.journal.payload import value_of

    forget_sums(record, partial(is_of_parts, parts))
    with decoding(f"{RAW_DIR}/ of the record", record / RAW_DIR):
        if "timeline" in parts:
            write_timeline(record)
        if "replicas" in parts:
            write_replicas(record, value_of(run_id))
            write_checkpoints(record)
    update_sums(record, partial(is_of_parts, parts))


def verdict_of(record: Record, reconciliation: Reconciliation) -> Verdict:
    """Return the verdict on a reconciled record.

    It reads the small tables, and writes nothing.
    """
    manifest = record.manifest
    read, scenario = record.scenario, record.readable_scenario
    judged, own = judged_record(record, reconciliation), own_rules_in_use()
    checked = without_doubtful_findings(check_all(judged, [*CLAUSES, *(one.clause for one in own)]), record)
    facts = _facts(judged, checked)
    unavailable = time_without_service(record)
    properties = {one.found.name: one.found.status for one in checked}
    seen = _observed_run(judged, facts, unavailable, properties)
    if (producers := judge_own_producers(record)) is not None:
        seen = with_own_producers(seen, producers)
    unproven = why_unproven(record)
    comparison = compare(record.prediction, manifest, seen, unproven=unproven) if scenario is not None else None
    sent_nothing = not record.gaps and ended_before_sending(record, reconciliation.counts)
    outcome, why = decide(
        checked=checked,
        blamed=judged.blamed,
        comparison=comparison,
        no_scenario=f"no scenario to compare with: {read.why}" if isinstance(read, Missing) else None,
        faulty=[
            *unproven_reasons(manifest, scenario, record.steps, [one.why for one in record.gaps]),
            *(producers.unproven if producers is not None else ()),
        ],
        no_final_read=manifest.why_no_final_read,
        sent_nothing=sent_nothing,
    )
    blamed, counts, results = judged.blamed, reconciliation.counts, [one.found for one in checked]
    losses, regressions, commits = losses_of(blamed), regressions_of(blamed), commit_losses_of(blamed)
    told = listed(blamed)
    prediction = comparison.prediction if comparison is not None else None
    return Verdict(
        run_id=manifest.run_id,
        outcome=outcome,
        prediction="none" if prediction is None or allows_everything(prediction) else "made",
        loss_allowed=is_loss_allowed(losses, results),
        why=[
            *(map(str, [one for one in producers.producers if one.lost]) if producers is not None else ()),
            *why,
            *prediction_reasons(
                comparison, outcome, {one.found.name for one in checked if one.found.status == "violated"}
            ),
            *([] if sent_nothing else [observed_sentence(seen, acks_0_summary(facts))]),
            *reasons_of(blamed),
        ],
        counts=counts,
        write_back=manifest.write_back,
        anomalies=list(reconciliation.anomalies),
        losses=losses,
        regressions=regressions,
        commits=commits,
        blamed=told,
        unavailable=unavailable,
        properties=results,
        coverage=facts,
        rule_files=[one.file for one in own] or msgspec.UNSET,
        protocol=judged_by(manifest.kafka_name, manifest.named_path) or msgspec.UNSET,
        own_producers=msgspec.UNSET if producers is None else [*producers.producers],
    )


def judged_record(record: Record, found: Reconciliation) -> Judged:
    """Return what the clauses look at: each anomaly that may have a cause has one."""
    # A damaged table is an error of the record, and no clause may take it for one of its own.
    _ = record.timeline, record.unsure_spans
    return Judged(record, found, without_doubtful_causes(attributed(record, found), record))


def _facts(judged: Judged, checked: Sequence[CheckedClause]) -> dict[str, int]:
    """Return the coverage facts.

    Those of the trace and of brokers' answers are left out where these could not be read.
    """
    kinds = counts_by_kind(judged.found.anomalies)
    threw = {one.found.name for one in checked if one.threw}
    facts = coverage(judged.record)
    if TRANSITIONS not in threw:
        facts |= seen_actions(judged.trace)
    known = [kind for kind in ANOMALIES if kind.name not in judged.unknown]
    facts |= {kind.fact.name: kinds.get(kind.name, 0) for kind in known if kind.fact}
    if API_AGREES not in threw and (compared := judged.record.seen(CompareAnswers)) is not None:
        facts |= compared.facts
    return facts


def _unknown_of_what_was_asked(judged: Judged) -> dict[str, str]:
    """Return why kinds are unknown, without what the record of an older Ebbtide could not say."""
    manifest = judged.record.manifest
    unasked = {one.name for one in ANOMALIES if one.was_asked is not None and not one.was_asked(manifest)}
    return {kind: why for kind, why in judged.unknown.items() if kind not in unasked}


def _observed_run(
    judged: Judged,
    facts: dict[str, int],
    unavailable: Sequence[Unavailability],
    properties: Mapping[str, PropertyStatus],
) -> ObservedRun:
    """Return what the run showed, to compare it with its prediction."""
    losses = blamed_of(judged.blamed, LostRange)
    vanished, commits = blamed_of(judged.blamed, VanishedRange), blamed_of(judged.blamed, LostCommits)
    lost_on: Counter[str] = Counter()
    for one in losses:
        lost_on[one.items.topic] += one.items.count if one.committed else 0
    counts, timeline = judged.found.counts, judged.record.timeline
    known = "partitions" not in timeline.missing
    from_elr = sum(one.road == "elr" for one in judged.record.elections)
    return ObservedRun(
        committed_lost=sum(one.items.count for one in losses if one.committed),
        uncommitted_lost=sum(one.items.count for one in losses if not one.committed),
        causes=_count_by_cause(losses),
        vanished=_count_by_cause(one for one in vanished if one.items.kind == VANISHED),
        commits=_count_by_cause(one for one in commits if one.items.kind == COMMIT_LOST),
        lost_on=lost_on,
        lost_by_acks=_lost_by_acks(judged, losses, facts),
        unknown_kinds=_unknown_of_what_was_asked(judged),
        kinds=counts_by_kind(judged.found.anomalies),
        elected_from_elr=from_elr if from_elr or (known and not timeline.torn) else None,
        facts=facts if known else {},
        unavailable=unavailable,
        acked=count_acked_by_brokers(counts, facts) if counts.sends or judged.record.has("sends") else None,
        acked_commits=judged.found.acked_commits,
        properties=properties,
    )


def _count_by_cause(blamed: Iterable[AnyAnomaly]) -> Counter[str]:
    """Count what was committed and lost, by its known cause."""
    counts: Counter[str] = Counter()
    for one in blamed:
        if one.committed and one.attribution.cause is not None:
            counts[one.attribution.cause] += one.items.count
    return counts


def _lost_by_acks(
    judged: Judged, losses: Sequence[AttributedAnomaly[LostRange]], facts: Mapping[str, int]
) -> dict[str, int]:
    """Return how many records of each acks were lost; an acks is left out where that is not known.

    A record with acks=0 has no offset, so no election can be found for it. It is lost if the final
    read lacks it.
    """
    known: dict[str, int] = {}
    if LOST not in judged.unknown:
        for acks, word in ACKS_SPELLED.items():
            if acks != 0:
                known[word] = sum(one.items.count for one in losses if one.items.acks == acks)
    return known | ({"0": facts["acks-0-gone"]} if "acks-0-gone" in facts else {})
