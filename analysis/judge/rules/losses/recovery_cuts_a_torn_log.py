"""A broker that starts after an unclean shutdown cuts each log before the first batch that is not whole.

A step tore the last page of a log: half a page of batches, then zeros. Then it started the broker, which registered and
was unfenced, so it had loaded its logs. At the end, `raw/` still has a torn batch at that place, with the zeros.
Further trouble with the broker's disk ends the question.
"""

from __future__ import annotations

from collections.abc import Iterator

from analysis.evidence.report import LogFileDamage
from analysis.judge.history.evidence import Row
from analysis.judge.rules.clause import Clause, Finding, Judged, finding, unknown_finding
from analysis.record.record import Record
from ebbtide.scenario.steps.disk import TornWriteStep
from ebbtide.scenario.steps.step import TornPage
from ebbtide.scenario.steps.table import DISK_TROUBLES, LOSES_RECORDS
from ebbtide.untrusted.files import UnreadableFile, open_file

_TORN = ("torn", "checksum")
"""A batch begins in the page, and its end is not there. Zeros alone may be of a file that was made longer before."""


def _check(judged: Judged) -> Finding:
    record = judged.record
    report = record.reports.replicas
    torn = [*_torn_and_started(record)]
    if torn and report is None:
        return unknown_finding("evidence.json does not say what is damaged")
    violations: list[Row] = []
    for broker, name, page in torn:
        for log in report.logs if report is not None else ():
            found = [one for one in log.damages if (log.broker, f"{log.topic}-{log.partition}") == (broker, name)]
            for one in found:
                if one.file.rpartition("/")[2] == page.segment and _is_the_tear(record, one, page):
                    row = {"topic": log.topic, "partition": log.partition, "broker": broker, "file": one.file}
                    violations.append({**row, "position": one.damage.position, "detail": one.damage.detail})
    return finding(exercised=len(torn), violations=violations)


def _torn_and_started(record: Record) -> Iterator[tuple[int, str, TornPage]]:
    """Yield each torn page of a broker that was unfenced after it, with the log's name."""
    steps = record.proven_steps or ()
    for at, step in enumerate(steps):
        for broker in step.nodes if step.is_a(TornWriteStep) and step.effect_ns is not None else ():
            later = [one for one in steps[at + 1 :] if broker in one.nodes]
            started = [one.times_of(broker).started for one in later]
            since_ns = min((one.last_ns for one in started if one is not None), default=None)
            if since_ns is None or any(one.step in LOSES_RECORDS | DISK_TROUBLES for one in later):
                continue
            events = [one for one in record.timeline.brokers if one.broker == broker and one.at_ns > since_ns]
            if [one.event for one in events[:2]] == ["registered", "unfenced"]:
                for name, page in (step.figures(TornWriteStep.Proof).of(broker).torn or {}).items():
                    yield broker, name, page


def _is_the_tear(record: Record, found: LogFileDamage, page: TornPage) -> bool:
    """Whether a damage is a batch that reaches into the zeros of a torn page, and those are there still."""
    zeros_at, end = page.position + page.arrived_bytes, page.position + page.arrived_bytes + page.zero_bytes
    damage = found.damage
    if damage.kind not in _TORN or damage.position >= zeros_at or damage.position + damage.size < end:
        return False
    try:
        with open_file(record.folder / found.file, what="a segment of the record") as file:
            file.seek(zeros_at)
            return file.read(page.zero_bytes) == bytes(page.zero_bytes)
    except (OSError, UnreadableFile):
        return False


RULE = Clause(
    kip="Kafka's promise",
    check=_check,
    applies=lambda judged: any(step.is_a(TornWriteStep) for step in judged.record.proven_steps or ()),
    parts=("replicas",),
    needed="never",
    compares_times=True,
    unknown_when="evidence.json does not say which logs are damaged. Only with the step `torn-write`",
    example="""
        The log of broker 2 is torn at 20 s: half of its first batch and zeros. It starts at 30 s, and has them still.
        partitions: leader=1
        brokers: at=31 broker=2; at=32 broker=2 event=unfenced
        steps: step=torn-write nodes=2 at=20; step=start nodes=2 at=30
        setting: torn=2
        gives: broker=2 position=0
    """,
)
