"""Builds what a report shows of one run, from the record and its verdict.

Every cell is a finished text, so a rendering decides on looks only.
"""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from analysis.record.record import Record
from analysis.record.small_files import Missing
from analysis.record.timeline import Timeline, TopicPartition
from analysis.report import words
from analysis.report.clock import clock_sentence
from analysis.report.covered import CoverageRow, coverage_rows, facts_not_covered
from analysis.report.drawing.layout import draw
from analysis.report.drawing.model import DrawnPicture
from analysis.report.election_words import blames_of, elections_by_offset, transition
from analysis.report.group_commits import CommitRow, commit_rows, count_lost_commits
from analysis.report.picture.building import partitions_by_blame, picture_of, read_source
from analysis.report.protocol import as_one_line, outcome_basis, protocol_of
from analysis.report.stories import STORIES_MAX, LossStory, stories_of
from ebbtide.record.outages import age_text, leaderless_text, oldest_text, outage_text
from ebbtide.record.outcomes import loss_sentences, outcome_word
from ebbtide.record.rows import PartitionState
from ebbtide.record.steps import StepEntry
from ebbtide.record.verdict import Loss, Regression, Verdict
from ebbtide.rules.table import CLAUSES
from ebbtide.scenario.steps.waiting import WaitStep
from ebbtide.scenario.triggers import trigger_text

PARTITIONS_MAX = 6
STATES_MAX = 120


class LossRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the loss table."""

    partition: str
    count: str
    acks: str
    committed: bool
    offsets: str
    cause: str
    meaning: str
    election: str
    oldest: str


class RegressionRow(msgspec.Struct, frozen=True, kw_only=True):
    """One HW that went back, before and after."""

    partition: str
    before: str
    after: str
    leader_epoch: int
    cause: str
    election: str


class StateRow(msgspec.Struct, frozen=True, kw_only=True):
    """One partition state.

    `mark` is guilty, election, empty or nothing; `note` says what happened.
    """

    metadata_offset: int
    at: str
    leader: str
    leader_epoch: int
    isr: str
    elr: str
    last_known: str
    mark: str
    note: str


class PartitionTimeline(msgspec.Struct, frozen=True, kw_only=True):
    """The states of one partition; `omitted` earlier ones are not shown."""

    name: str
    rows: tuple[StateRow, ...]
    omitted: int


class StepRow(msgspec.Struct, frozen=True, kw_only=True):
    """One step with its proof.

    `proven` false: it never fired or has no proof. `effect` says whether it took effect; a wait has
    none.
    """

    index: int
    step: str
    nodes: str
    trigger: str
    fired: str
    healed: str
    proven: bool
    effect: str
    proof: str


class PropertyRow(msgspec.Struct, frozen=True, kw_only=True):
    """One clause: its text, its status, its meaning in this run, and the evidence.

    The evidence is JSON lines.
    """

    name: str
    kip: str
    text: str
    status: str
    gloss: str
    evidence: tuple[str, ...]


class AnomalyRow(msgspec.Struct, frozen=True, kw_only=True):
    """One kind on one partition, with examples as JSON lines."""

    kind: str
    partition: str
    count: str
    examples: tuple[str, ...]


class ReportModel(msgspec.Struct, frozen=True, kw_only=True):
    """The whole report."""

    run_id: str
    scenario: str
    kafka: str
    outcome: str
    lost: str | None
    headline: str
    why: tuple[str, ...]
    figures: tuple[tuple[str, str], ...]
    losses: tuple[LossRow, ...]
    no_losses: str
    regressions: tuple[RegressionRow, ...]
    no_regressions: str
    regressions_omitted: int
    timelines: tuple[PartitionTimeline, ...]
    timelines_omitted: int
    steps: tuple[StepRow, ...]
    properties: tuple[PropertyRow, ...]
    anomalies: tuple[AnomalyRow, ...]
    coverage: tuple[CoverageRow, ...]
    not_covered: tuple[str, ...]
    configuration: tuple[tuple[str, str], ...]
    commands: tuple[tuple[str, str], ...]
    because: str = ""
    title: str = ""
    drawn: DrawnPicture | None = None
    stories: tuple[LossStory, ...] = ()
    stories_omitted: int = 0
    commits: tuple[CommitRow, ...] = ()


def build(
    record: Record,
    verdict: Verdict,
    named: str | None = None,
) -> ReportModel:
    """Build the report of a judged run.

    `named` is the record's address.
    """
    manifest, timeline, steps = record.manifest, record.timeline, record.steps or ()
    start_ns = manifest.start_ns if manifest.start_ns is not None else _first_ns(timeline)
    chosen = partitions_by_blame(timeline, verdict)
    picture = picture_of(read_source(record, verdict))
    return ReportModel(
        run_id=verdict.run_id,
        scenario=manifest.scenario or "no scenario",
        kafka=words.target(record) or "unknown",
        outcome=outcome_word(verdict),
        lost=loss_sentences(verdict),
        headline=words.headline(verdict, words.target(record), sends=words.has_sends(record.folder, verdict)),
        because=outcome_basis(verdict, record.prediction),
        why=tuple(verdict.why),
        figures=_figures(record, verdict),
        losses=tuple(_loss(loss) for loss in verdict.losses),
        no_losses=words.no_losses(verdict),
        regressions=tuple(_regression(one) for one in verdict.regressions[:STATES_MAX]),
        no_regressions="Not known."
        if words.count_regressions(verdict) == words.UNKNOWN
        else "None was seen to go back.",
        regressions_omitted=max(0, len(verdict.regressions) - STATES_MAX),
        timelines=tuple(_timeline(timeline, key, verdict, start_ns) for key in chosen[:PARTITIONS_MAX]),
        timelines_omitted=max(0, len(chosen) - PARTITIONS_MAX),
        steps=tuple(_step(step, start_ns) for step in steps),
        properties=tuple(
            PropertyRow(
                name=one.name,
                kip=one.kip,
                text=CLAUSES[one.name].text.replace("`", "") if one.name in CLAUSES else "",
                status=one.status,
                gloss=words.gloss(verdict, one),
                evidence=tuple(words.json_line(row) for row in one.evidence),
            )
            for one in sorted(verdict.properties, key=lambda one: words.STATUS_ORDER.index(one.status))
        ),
        anomalies=tuple(
            AnomalyRow(
                kind=one.kind,
                partition=f"{one.topic}-{one.partition}",
                count=f"{one.count:,}",
                examples=tuple(words.json_line(row) for row in one.examples),
            )
            for one in verdict.anomalies
        ),
        coverage=coverage_rows(verdict),
        not_covered=facts_not_covered(verdict),
        configuration=_configuration(record),
        commands=words.commands(named or str(record)),
        title=scenario_title(record),
        drawn=draw(picture) if picture is not None else None,
        stories=stories_of(record, verdict, timeline, start_ns),
        stories_omitted=max(0, len(verdict.losses) - STORIES_MAX),
        commits=commit_rows(verdict),
    )


def scenario_title(record: Record) -> str:
    """Return the title of the scenario as run; empty where it cannot be read."""
    return "" if isinstance(record.scenario, Missing) else record.scenario.title


def _figures(record: Record, verdict: Verdict) -> tuple[tuple[str, str], ...]:
    """Return the figures that mean something for this run: records, losses, then service."""
    found = (
        *(
            ("outcome unknown" if name == "unknown" else name, value)
            for name, value in words.send_counts(record, verdict)
        ),
        ("read, by all consumers", f"{verdict.counts.polls:,}" if verdict.properties else words.UNKNOWN),
        ("lost, committed", words.count_lost_text(verdict, committed=True)),
        ("lost, not committed", words.count_lost_text(verdict, committed=False)),
        ("acks=0, lost", words.count_lost_acks_0(verdict)),
        ("commits of groups, lost", count_lost_commits(verdict)),
        ("oldest lost", oldest_text(verdict)),
        ("answers with a lower HW", words.count_regressions(verdict)),
        ("without leader, longest", leaderless_text(verdict)),
        ("without ack, longest", outage_text(verdict, "no_ack")),
        ("took", words.duration(record.manifest.start_ns, record.manifest.end_ns)),
        ("protocol", as_one_line(protocol_of(record, verdict))),
    )
    return tuple((name, value) for name, value in found if value != "-")


def _loss(loss: Loss) -> LossRow:
    return LossRow(
        partition=f"{loss.topic}-{loss.partition}",
        count=f"{loss.count:,}",
        acks=words.acks(loss.acks),
        committed=loss.committed,
        offsets=f"{loss.first_offset:,} to {loss.last_offset:,}",
        cause=loss.cause,
        meaning=words.MEANING[loss.cause],
        election=words.election(loss.election),
        oldest=age_text(loss),
    )


def _regression(one: Regression) -> RegressionRow:
    return RegressionRow(
        partition=f"{one.topic}-{one.partition}",
        before=f"{one.from_:,}",
        after=f"{one.to:,}",
        leader_epoch=one.leader_epoch,
        cause=one.cause,
        election=words.election(one.election),
    )


def _first_ns(timeline: Timeline) -> int | None:
    return min((states[0].at_ns for states in timeline.partitions.values()), default=None)


def _timeline(timeline: Timeline, key: TopicPartition, verdict: Verdict, start_ns: int | None) -> PartitionTimeline:
    blames = blames_of(verdict, key)
    elected = elections_by_offset(timeline, key)
    rows = []
    before: PartitionState | None = None
    for state in timeline.partitions[key]:
        election = elected.get(state.metadata_offset)
        mark, note = transition(before, state, election, blames.get(state.metadata_offset))
        rows.append(
            StateRow(
                metadata_offset=state.metadata_offset,
                at=words.offset_s(state.at_ns, start_ns),
                leader=str(state.leader) if state.leader >= 0 else "none",
                leader_epoch=state.leader_epoch,
                isr=words.members(state.isr),
                elr=words.members(state.elr),
                last_known=words.members(state.last_known_elr),
                mark=mark,
                note=note,
            )
        )
        before = state
    kept = _rows_to_show(rows)
    return PartitionTimeline(name=f"{key[0]}-{key[1]}", rows=tuple(kept), omitted=len(rows) - len(kept))


def _rows_to_show(rows: list[StateRow]) -> list[StateRow]:
    """Return at most STATES_MAX rows: the marked ones first, then the newest."""
    if len(rows) <= STATES_MAX:
        return rows
    marked = [row for row in rows if row.mark][:STATES_MAX]
    others = [row for row in rows if not row.mark]
    newest = others[len(others) - (STATES_MAX - len(marked)) :]
    return sorted([*marked, *newest], key=lambda row: row.metadata_offset)


def _step(step: StepEntry, start_ns: int | None) -> StepRow:
    fired = step.fired_ns is not None
    proven = fired and (step.effect_ns is not None or step.is_a(WaitStep))
    return StepRow(
        index=step.index,
        step=step.step,
        nodes=words.nodes(step.nodes),
        trigger=trigger_text(step.trigger) or "at once",
        fired=words.offset_s(step.fired_ns, start_ns) if fired else "never",
        healed=words.offset_s(step.healed_ns, start_ns) if step.healed_ns is not None else "-",
        proven=proven,
        effect=_effect(step, fired=fired, proven=proven),
        proof=words.proof(step),
    )


def _effect(step: StepEntry, *, fired: bool, proven: bool) -> str:
    if proven:
        return "waited" if step.is_a(WaitStep) else "proven"
    if step.optional:
        return "left out"
    return "no proof" if fired else "never fired"


def _configuration(record: Record) -> tuple[tuple[str, str], ...]:
    manifest = record.manifest

    def when(ns: int | None) -> str:
        return datetime.fromtimestamp(ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if ns is not None else "-"

    rows = [
        ("Kafka", manifest.shown_kafka),
        ("releases of the nodes", words.releases(manifest) or "-"),
        ("feature levels", words.without_brackets(manifest.features) or "-"),
        ("controllers", words.members(manifest.topology.controllers, "-")),
        ("brokers", words.members(manifest.topology.brokers, "-")),
        ("combined", words.combined_nodes(manifest) or "-"),
        *(
            (
                f"topic {name}",
                f"partitions {t.partitions}, replication factor {t.replication_factor}, min ISR {t.min_isr}",
            )
            for name, t in sorted(manifest.topics.items())
        ),
        *(
            (
                f"producer {name}",
                f"acks={words.acks(p.acks)}"
                + (", idempotent" if p.idempotent else "")
                + (", transactional" if p.transactional else ""),
            )
            for name, p in sorted(manifest.producers.items())
        ),
        ("runtime", manifest.runtime or "-"),
        ("power loss by", manifest.power_loss_method or "-"),
        ("write-back", words.write_back(manifest)),
        ("file system", manifest.file_system or "-"),
        ("timings", words.timings(manifest)),
        ("seed", str(manifest.seed) if manifest.seed is not None else "-"),
        ("drawn", words.without_brackets(manifest.draws) or "-"),
        ("clients", words.without_brackets(manifest.clients) or "-"),
        ("host", words.without_brackets(manifest.host) or "-"),
        ("clock", clock_sentence(record)),
        ("started", when(manifest.start_ns)),
        ("ended", when(manifest.end_ns)),
        ("status", manifest.status + (f": {manifest.failure}" if manifest.failure else "")),
    ]
    return tuple(row for row in rows if row[1] != "-")
