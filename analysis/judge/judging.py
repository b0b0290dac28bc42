"""Judges one run record: evidence, reconciliation, causes, clauses, prediction; writes what they come to.

The only place that knows the order. Everything it writes (verdict.json, report.html, anomalies/) is derived:
judging a record again replaces it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.judge.api_check import Compared, compare_answers
from analysis.judge.causes import attribute_loss, attribute_regression
from analysis.judge.client_facts import client_facts
from analysis.judge.coverage import coverage
from analysis.judge.elections import all_elections
from analysis.judge.epochs import load_epochs
from analysis.judge.evidence import Evidence
from analysis.judge.hw_check import Touch
from analysis.judge.invariants import API_AGREES, TRANSITIONS, WITNESS, Case, Checked, check_all
from analysis.judge.log_losses import log_losses
from analysis.judge.outcome import decide, unproven
from analysis.judge.outcome_checks import Blamed, by_election, election_of
from analysis.judge.prediction import Comparison, Seen, compare, known, told, told_seen
from analysis.judge.rules import Rules
from analysis.judge.timeline import load_timeline
from analysis.judge.trace_check import seen_actions, trace_of
from analysis.verdict import Cause, Election, Loss, Regression, Verdict, write_verdict
from analysis.witness.table import WITNESS_DIR
from harness.errors import EbbtideError, Problems
from harness.record.files import JOURNAL_DIR, RAW_DIR
from harness.record.manifest import Manifest, read_manifest
from harness.record.steps import elementary, read_steps
from harness.record.tables import table_files
from harness.scenario.model import Scenario
from harness.scenario.write import SCENARIO

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from analysis.reconcile.model import Reconciliation

KAFKA_SESSION_TIMEOUT_S = 9.0
"""broker.session.timeout.ms where the scenario does not say."""

_TOLD_MAX = 20


def judge(record: Path, spark: SparkSession) -> Verdict:
    """Judge a record and write verdict.json, report.html and anomalies/.

    Raises `UsageError` when it is no record, or one of its files is damaged.
    """
    from analysis.reconcile import reconcile

    manifest = ready(record)
    return conclude(record, manifest, reconcile(spark, record, manifest))


def ready(record: Path) -> Manifest:
    """Complete the tables of a record that is to be reconciled. Raises `UsageError` when it is none."""
    manifest = read_manifest(record)
    complete_tables(record, manifest.run_id)
    return manifest


def conclude(record: Path, manifest: Manifest, reconciliation: Reconciliation) -> Verdict:
    """The verdict on a reconciled record, written to it with its report."""
    from analysis.report.html import write_report
    from analysis.report.model import build

    verdict = verdict_of(record, manifest, reconciliation)
    write_verdict(record, verdict)
    write_report(record, build(record, manifest, verdict, read_steps(record) or []))
    return verdict


def complete_tables(record: Path, run_id: str) -> None:
    """Decode what an interrupted run left undecoded: its journals, and the logs under raw/."""
    if (record / JOURNAL_DIR).is_dir():
        from workloads.convert import convert_journals

        convert_journals(record)
    if (record / RAW_DIR).is_dir():
        from analysis.evidence.collect import write_checkpoints, write_replicas, write_timeline
        from workloads.payload import value_of

        if not table_files(record, "partitions"):
            write_timeline(record)
        if not table_files(record, "replicas"):
            write_replicas(record, value_of(run_id))
            write_checkpoints(record)


def verdict_of(record: Path, manifest: Manifest, reconciliation: Reconciliation) -> Verdict:
    """The verdict on a reconciled record; reads the small tables, writes nothing."""
    recorded = read_steps(record)
    steps = None if recorded is None else elementary(recorded)
    timeline = load_timeline(record)
    rules = Rules(manifest, timeline)
    evidence = Evidence(
        record=record,
        timeline=timeline,
        rules=rules,
        epochs=load_epochs(record),
        log_losses=log_losses(steps) if steps is not None else None,
    )
    scenario, no_scenario = _scenario(record)
    unknown_kinds = _unknown_kinds(manifest, reconciliation)
    losses = _blamed_losses(evidence, reconciliation)
    regressions = _blamed_regressions(evidence, reconciliation)
    trace = cache(partial(trace_of, evidence, manifest, scenario, steps))
    answers = cache(partial(compare_answers, record, evidence))
    session_timeout_s = scenario.cluster.session_timeout_s if scenario is not None else KAFKA_SESSION_TIMEOUT_S
    controllers = manifest.topology.controllers
    case = Case(
        record=record,
        manifest=manifest,
        evidence=evidence,
        trace=trace,
        answers=answers,
        steps=steps,
        controllers=controllers,
        session_timeout_s=session_timeout_s,
        losses=losses,
        regressions=regressions,
        anomalies=reconciliation.anomalies,
        acked=reconciliation.counts.acked,
        failed=reconciliation.counts.failed,
        unknown_kinds=unknown_kinds,
        hw_observed=bool(table_files(record, "watermarks")),
    )
    checked = check_all(case)
    if (record / WITNESS_DIR).is_dir():
        checked += check_all(case, [WITNESS])
    actions = {} if any(one.threw and one.found.name == TRANSITIONS for one in checked) else seen_actions(trace())
    touch = Touch(steps=tuple(steps or ()), controllers=controllers, session_s=session_timeout_s)
    facts = coverage(evidence, steps) | actions | _facts_of_clients(record, evidence, touch, reconciliation)
    facts |= _facts_of_answers(checked, answers)
    seen = _seen(evidence, reconciliation, losses, unknown_kinds, facts)
    comparison: Comparison | None = None
    if scenario is not None:
        comparison = compare(scenario, manifest, seen)
    outcome, why = decide(
        checked=checked,
        losses=losses,
        regressions=regressions,
        comparison=comparison,
        no_scenario=no_scenario,
        faulty=unproven(manifest, scenario, recorded),
    )
    prediction = comparison.prediction if comparison is not None else None
    if prediction is not None:
        why.append(told(prediction))
        if outcome == "contradicted" and prediction.known_bug is not None and comparison and not comparison.broken:
            why.append(known(prediction.known_bug))
    counts = reconciliation.counts
    acked = counts.acked if counts.sends or table_files(record, "sends") else None
    why += [told_seen(seen, acked), *_reasons(losses, regressions)]
    return Verdict(
        run_id=manifest.run_id,
        outcome=outcome,
        why=why,
        counts=counts,
        anomalies=list(reconciliation.anomalies),
        losses=_losses(losses),
        regressions=_regressions(regressions),
        properties=[one.found for one in checked],
        coverage=facts,
    )


def _scenario(record: Path) -> tuple[Scenario | None, str | None]:
    """The scenario as run, or why there is none to compare with."""
    from harness.scenario.parse import load

    path = record / SCENARIO
    if not path.is_file():
        return None, "no scenario to compare with: scenario.toml is missing"
    try:
        return load(path), None
    except EbbtideError as error:
        problems = error.problems if isinstance(error, Problems) else (error,)
        told = "; ".join(" ".join(filter(None, (one.what, one.got, _at(path, one)))) for one in problems)
        return None, f"no scenario to compare with: scenario.toml cannot be read: {told}"


def _at(scenario: Path, problem: EbbtideError) -> str | None:
    """Where in the file; the file itself is named already."""
    return f"at {problem.where}" if problem.where not in (None, str(scenario)) else None


def _blamed_losses(evidence: Evidence, reconciliation: Reconciliation) -> list[Blamed]:
    return [
        Blamed(
            topic=lost.topic,
            partition=lost.partition,
            what={"acks": lost.acks, "first_offset": part.first_offset, "last_offset": part.last_offset},
            count=part.count,
            committed=lost.committed or lost.acks == -1,
            attribution=part.attribution,
        )
        for lost in reconciliation.lost
        for part in attribute_loss(evidence, lost)
    ]


def _blamed_regressions(evidence: Evidence, reconciliation: Reconciliation) -> list[Blamed]:
    return [
        Blamed(
            topic=back.topic,
            partition=back.partition,
            what={"from": back.from_, "to": back.to, "leader_epoch": back.leader_epoch},
            count=1,
            committed=True,
            attribution=attribute_regression(evidence, back, reconciliation.lost),
        )
        for back in reconciliation.regressions
    ]


def _unknown_kinds(manifest: Manifest, reconciliation: Reconciliation) -> dict[str, str]:
    """Why a kind is unknown. A HW that had not gone back when a run ended early might have done so later."""
    early = {} if manifest.status == "complete" else {"hw-regression": "the run ended early"}
    return {**early, **reconciliation.unknown}


def _facts_of_clients(record: Path, evidence: Evidence, touch: Touch, reconciliation: Reconciliation) -> dict[str, int]:
    facts = dict(client_facts(record, evidence, touch))
    if "vanished" not in reconciliation.unknown:
        facts["records-read-then-gone"] = sum(one.count for one in reconciliation.anomalies if one.kind == "vanished")
    return facts


def _facts_of_answers(checked: Sequence[Checked], answers: Callable[[], Compared | None]) -> dict[str, int]:
    """None where the answers cannot be read: the clause says so."""
    if any(one.threw and one.found.name == API_AGREES for one in checked):
        return {}
    compared = answers()
    return {} if compared is None else compared.facts


def _seen(
    evidence: Evidence,
    reconciliation: Reconciliation,
    losses: list[Blamed],
    unknown_kinds: dict[str, str],
    facts: dict[str, int],
) -> Seen:
    causes: Counter[str] = Counter()
    for one in losses:
        if one.committed and one.attribution.cause is not None:
            causes[one.attribution.cause] += one.count
    kinds: Counter[str] = Counter()
    for anomaly in reconciliation.anomalies:
        kinds[anomaly.kind] += anomaly.count
    known = "partitions" not in evidence.timeline.missing
    return Seen(
        committed_lost=sum(one.count for one in losses if one.committed),
        uncommitted_lost=sum(one.count for one in losses if not one.committed),
        causes=causes,
        kinds=kinds,
        unknown_kinds=unknown_kinds,
        elected_from_elr=sum(one.road == "elr" for one in all_elections(evidence.timeline)) if known else None,
        facts=facts if known else {},
        acked=reconciliation.counts.acked if reconciliation.counts.sends else None,
    )


def _losses(blamed: list[Blamed]) -> list[Loss]:
    """Lost records by partition, acks, commitment, cause and election; those without a cause are not among them."""
    groups: dict[tuple[str, int, int, bool, Cause, Election | None], list[Blamed]] = {}
    for one in blamed:
        if one.attribution.cause is not None:
            election = election_of(one.attribution)
            key = (one.topic, one.partition, one.what["acks"], one.committed, one.attribution.cause, election)
            groups.setdefault(key, []).append(one)
    return [
        Loss(
            topic=topic,
            partition=partition,
            acks=acks,
            committed=committed,
            cause=cause,
            count=sum(one.count for one in group),
            first_offset=min(one.what["first_offset"] for one in group),
            last_offset=max(one.what["last_offset"] for one in group),
            election=election,
        )
        for (topic, partition, acks, committed, cause, election), group in groups.items()
    ]


def _regressions(blamed: list[Blamed]) -> list[Regression]:
    return [
        Regression(
            topic=one.topic,
            partition=one.partition,
            from_=one.what["from"],
            to=one.what["to"],
            leader_epoch=one.what["leader_epoch"],
            cause=one.attribution.cause,
            election=election_of(one.attribution),
        )
        for one in blamed
        if one.attribution.cause is not None
    ]


def _reasons(losses: list[Blamed], regressions: list[Blamed]) -> list[str]:
    """Each different cause in a sentence: which records, by which election, and why that broker could lead.

    What is unexplained stands among the reasons for the outcome already.
    """
    groups: dict[tuple[str, str, str], int] = {}
    for kind, blamed in (("lost record", losses), ("fall of the HW|falls of the HW", regressions)):
        for one in blamed:
            if one.attribution.cause == "unexplained":
                continue
            cause = one.attribution.cause or "cause not known"
            reason = f"{cause}: {one.attribution.why}{by_election(one.attribution)}"
            key = (kind, f"{one.topic}-{one.partition}", reason)
            groups[key] = groups.get(key, 0) + one.count
    told_ = [f"{name}, {_counted(count, kind)}, {reason}" for (kind, name, reason), count in groups.items()]
    return told_[:_TOLD_MAX] + ([f"and {len(told_) - _TOLD_MAX} more"] if len(told_) > _TOLD_MAX else [])


def _counted(count: int, noun: str) -> str:
    """`1 lost record`, `2 lost records`; a noun with a plural of its own is given as `one|many`."""
    one, _, many = noun.partition("|")
    return f"{count:,} {one if count == 1 else many or one + 's'}"
