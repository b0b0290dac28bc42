"""Reads from a run record what a replay needs.

A replay needs the scenario, the state when each step fired, and the verdict.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import msgspec
import pyarrow.compute as pc

from analysis.record.record import Record
from analysis.record.timeline import Timeline
from ebbtide.errors import Problems, UsageError
from ebbtide.journal.convert import has_journals
from ebbtide.record.files import RUN_ID_ALLOWED, RecordFolder, is_run_id
from ebbtide.record.manifest import MANIFEST, Manifest, list_records, read_run
from ebbtide.record.rows import PartitionState
from ebbtide.record.steps import StepEntry, read_steps
from ebbtide.record.topic_lives import name_of
from ebbtide.record.verdict import Verdict, read_verdict, unfinished_verdict
from ebbtide.releases.builds import is_build
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.parse import load
from ebbtide.scenario.references import UnknownTopic
from ebbtide.scenario.steps.admin import DeleteTopicStep
from ebbtide.scenario.validate import validate
from ebbtide.scenario.write import SCENARIO
from ebbtide.shown_text import plural
from ebbtide.untrusted.parquet import read_rows
from harness.runner.gates import broker_state_after


class LoadedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run record; `verdict` is None if it was not judged."""

    folder: Path
    manifest: Manifest
    scenario: Scenario
    steps: tuple[StepEntry, ...]
    timeline: Timeline
    verdict: Verdict | None

    def partitions_at(self, at_ns: int) -> list[PartitionState]:
        """Return the state of the scenario's partitions at this time, sorted by name.

        Partitions that did not exist yet are left out.
        """
        by_name: dict[tuple[str, int], list[PartitionState]] = {}
        for (topic, partition), states in self.timeline.partitions.items():
            # Several topics may have had one name, one after the other.
            name = name_of(topic)
            earlier = [msgspec.structs.replace(state, topic=name) for state in states if state.at_ns <= at_ns]
            by_name.setdefault((name, partition), []).extend(earlier)
        found = []
        for (topic, _), before in sorted(by_name.items()):
            before.sort(key=lambda state: state.metadata_offset)
            if topic in self.scenario.topics and before and not self._is_deleted(before, at_ns):
                found.append(before[-1])
        return found

    def _is_deleted(self, states: list[PartitionState], at_ns: int) -> bool:
        """Whether a step had deleted the partition with these states.

        The timeline has no row for a deletion.
        """
        topic = states[0].topic
        deletions = [
            step.fired_ns
            for step in self.steps
            if step.is_a(DeleteTopicStep)
            and step.asked.topic == topic
            and step.fired_ns is not None
            and step.effect_ns is not None
            and step.effect_ns <= at_ns
        ]
        made_ns = max(state.at_ns for state in states if state.partition_epoch == 0 or state is states[0])
        return bool(deletions) and made_ns <= max(deletions)

    def brokers_at(self, at_ns: int) -> dict[int, str]:
        """Return the standing of each broker at this time.

        Its newest registration event decides.
        """
        return {
            event.broker: broker_state_after(event.event) for event in self.timeline.brokers if event.at_ns <= at_ns
        }

    def acked_at(self, times_ns: list[int]) -> list[int]:
        """Count the records acked until each of these times.

        Returns 0 if the record has no table of sends.
        """
        files = RecordFolder(self.folder).files("sends")
        if not files or not times_ns:
            return [0] * len(times_ns)
        columns = ["status", "done_ns"]
        sends = read_rows(files, "sends", columns=columns)
        done = sends.filter(pc.equal(sends["status"], "acked"))["done_ns"]
        return [pc.sum(pc.less_equal(done, at_ns)).as_py() or 0 for at_ns in times_ns]


def load_run_to_repeat(folder: Path) -> LoadedRun:
    """Load a run as `load_run` does. Raises `UsageError` also for one that failed, or was interrupted, before it began.

    It ended before its first step and before any record was acked.
    """
    recorded = load_run(folder)
    manifest = recorded.manifest
    if (
        manifest.status == "complete"
        or any(step.fired_ns is not None for step in recorded.steps)
        or has_journals(RecordFolder(folder))
        or recorded.acked_at([sys.maxsize]) != [0]
    ):
        return recorded
    ended = "failed" if manifest.status == "failed" else "was interrupted"
    raise UsageError(
        f"the run {ended} before its first step, and nothing was acked: there is nothing to repeat",
        where=str(folder),
        got=manifest.why_incomplete or "no reason given",
        next=manifest.failure_next or f"ebbtide run {shlex.quote(str(folder / SCENARIO))}",
    )


def _check_run_id(record: RecordFolder, manifest: Manifest) -> None:
    """Raise `UsageError` where the record's run id cannot name a folder.

    Replays and shrinks name folders and files by it. Judging writes only into the record's own folder, so that it
    accepts such a record.
    """
    if not is_run_id(manifest.run_id):
        raise UsageError(
            "the run id in manifest.json cannot name a folder, which replays and shrinks need",
            where=str(record / MANIFEST),
            got=repr(manifest.run_id),
            allowed=RUN_ID_ALLOWED,
            next=f"ebbtide analyze {shlex.quote(str(record))}",
        )


def load_run(folder: Path) -> LoadedRun:
    """Read a run record.

    Raises `UsageError` for a folder that is not a record, for a damaged record, for one without scenario.toml, and for
    one whose run id is not the name of its folder.
    """
    record = RecordFolder(folder)
    manifest = read_run(record)
    _check_run_id(record, manifest)
    if manifest.watch is not None:
        raise UsageError(
            "a watch cannot be repeated: Ebbtide did not break this cluster, and does not know how to",
            where=str(folder),
            allowed="the record of a run",
            next=f"ebbtide analyze {shlex.quote(str(folder))}",
        )
    if not record.has(SCENARIO):
        raise UsageError(
            "the record does not say what was run: scenario.toml is missing",
            where=str(folder),
            next=list_records(folder),
        )
    scenario, steps = scenario_to_repeat(folder / SCENARIO, manifest.kafka_name), tuple(read_steps(record) or ())
    if others := [one for one in steps if one.index >= len(scenario.steps)]:
        raise UsageError(
            "the record has steps that its scenario.toml does not have, so it cannot be repeated",
            where=str(folder),
            got=f"step {others[0].index}, {others[0].step}",
            allowed=f"{plural(len(scenario.steps), 'step')}, counted from 0",
            next=f"ebbtide analyze {shlex.quote(str(folder))}",
        )
    verdict = read_verdict(record)
    return LoadedRun(
        folder=folder,
        manifest=manifest,
        scenario=scenario,
        steps=steps,
        timeline=Record(record, manifest).timeline,
        verdict=None if verdict == unfinished_verdict(manifest.run_id) else verdict,
    )


def scenario_to_repeat(path: Path, kafka: str) -> Scenario:
    """Read the scenario of a record of `kafka`, which is to run again.

    Raises `UsageError` as `load` does, and where steps name topics that others made. A build may have levels and
    properties that the release of its three numbers lacks.
    """
    next_ = f"ebbtide scenarios check {shlex.quote(str(path))}"
    try:
        scenario = load(path, next=next_, to_run=not is_build(kafka))
        if is_build(kafka) and (found := [*validate(msgspec.structs.replace(scenario, kafka=(kafka,)))]):
            raise Problems(str(path), [*found], next=next_)
    except Problems as wrong:
        of_others = {one.got: one.where for one in wrong.problems if isinstance(one, UnknownTopic)}
        if not all(isinstance(one, UnknownTopic) and str(one.where).startswith("steps[") for one in wrong.problems):
            raise
        raise UsageError(
            "a test or another program made topics that steps of this run name: Ebbtide cannot make them again",
            where=f"{path}: {', '.join(map(str, of_others.values()))}",
            got=", ".join(map(str, of_others)),
            next="pytest -x --lf    (runs the test again; if another program made them, start that program again)",
        ) from None
    return scenario
