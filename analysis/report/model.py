"""Builds what a report shows of one run, from the record and its verdict.

Every cell is a finished text, so a rendering decides on looks only.
"""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from analysis.record.files import Missing
from analysis.record.record import Record
from analysis.record.timeline import Timeline, TopicPartition
from analysis.report.drawing.layout import draw
from analysis.report.drawing.model import DrawnPicture
from analysis.report.picture.building import partitions_by_blame, picture_of
from analysis.report.stories import LossStory, stories_of
from analysis.sentences import words
from analysis.sentences.elections import blames_of, elections_by_offset, transition
from analysis.sentences.protocol import as_one_line, outcome_basis, own_rules, protocol_of
from analysis.sentences.steps import proof
from ebbtide.record.outages import leaderless_text, oldest_text, outage_text
from ebbtide.record.outcomes import loss_sentences, outcome_word
from ebbtide.record.rows import PartitionState
from ebbtide.record.steps import StepEntry
from ebbtide.record.verdict import Verdict
from ebbtide.scenario.steps.step import WaitStep
from ebbtide.scenario.triggers import trigger_text

PARTITIONS_MAX = 6
STATES_MAX = 120


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


class ReportModel(msgspec.Struct, frozen=True, kw_only=True):
    """The whole report; the page formats what it shows of the verdict as the module words does."""

    verdict: Verdict
    scenario: str
    kafka: str
    outcome: str
    lost: str | None
    headline: str
    figures: tuple[tuple[str, str], ...]
    timelines: tuple[PartitionTimeline, ...]
    timelines_omitted: int
    steps: tuple[StepRow, ...]
    configuration: tuple[tuple[str, str], ...]
    commands: tuple[tuple[str, str], ...]
    because: str = ""
    title: str = ""
    drawn: DrawnPicture | None = None
    stories: tuple[LossStory, ...] = ()


def build(
    record: Record,
    verdict: Verdict,
    named: str | None = None,
) -> ReportModel:
    """Build the report of a judged run.

    `named` is the record's address.
    """
    manifest, timeline, steps = record.manifest, record.timeline, record.steps or ()
    first_ns = min((states[0].at_ns for states in timeline.partitions.values()), default=None)
    start_ns = manifest.start_ns if manifest.start_ns is not None else first_ns
    chosen = partitions_by_blame(timeline, verdict)
    picture = picture_of(record, verdict)
    return ReportModel(
        verdict=verdict,
        scenario=manifest.scenario or "no scenario",
        kafka=words.target(record) or "unknown",
        outcome=outcome_word(verdict),
        lost=loss_sentences(verdict),
        headline=words.headline(verdict, words.target(record), sends=words.has_sends(record.folder, verdict)),
        because=outcome_basis(verdict, record.prediction),
        figures=_figures(record, verdict),
        timelines=tuple(_timeline(timeline, key, verdict, start_ns) for key in chosen[:PARTITIONS_MAX]),
        timelines_omitted=max(0, len(chosen) - PARTITIONS_MAX),
        steps=tuple(_step(step, start_ns) for step in steps),
        configuration=_configuration(record),
        commands=words.commands(named or str(record)),
        title=scenario_title(record),
        drawn=draw(picture) if picture is not None else None,
        stories=stories_of(record, verdict, start_ns),
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
        ("your producers", verdict.own_figure or "-"),
        ("acks=0, lost", words.count_lost_acks_0(verdict)),
        ("commits of groups, lost", words.count_lost_commits(verdict)),
        ("oldest lost", oldest_text(verdict)),
        ("answers with a lower HW", words.count_regressions(verdict)),
        ("without leader, longest", leaderless_text(verdict)),
        ("without ack, longest", outage_text(verdict, "no_ack")),
        ("took", words.duration(record.manifest.start_ns, record.manifest.end_ns)),
        ("protocol", as_one_line(protocol_of(record, verdict))),
        ("judged by", verdict.judged_by(record.manifest.kafka_name) or "-"),
        ("your rules", as_one_line(own_rules(verdict)) or "-"),
    )
    return tuple((name, value) for name, value in found if value != "-")


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
        proof=proof(step),
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

    build = manifest.build
    rows = [
        ("Kafka", manifest.shown_kafka),
        ("build", f"{build.version}, commit {build.commit}, {len(build.digests)} jars" if build is not None else "-"),
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
        ("clock", words.clock_sentence(record)),
        ("started", when(manifest.start_ns)),
        ("ended", when(manifest.end_ns)),
        ("status", manifest.status + (f": {manifest.failure}" if manifest.failure else "")),
    ]
    return tuple(row for row in rows if row[1] != "-")
