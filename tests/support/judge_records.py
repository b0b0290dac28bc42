"""Builds small run records for the judge's tests, row by row, times in seconds.

The reconciliation is given, not computed: what the judge does with it is under test, and needs no Spark.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from lost_sends import IN_NO_LOG, lost_sends, value_of
from metadata_rows import let_times_rise
from records import as_record
from usual_rows import usual_row

from analysis.evidence.report import ControllerLog, TimelineReport, save
from analysis.judging.one_record import verdict_of
from analysis.reconcile.model import (
    AbortedReads,
    Duplicates,
    HangingTransaction,
    HwRegression,
    LostCommits,
    LostRange,
    Reconciliation,
    VanishedRange,
    WrongCopies,
)
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import Manifest, TopicSetup, Topology, write_manifest
from ebbtide.record.steps import StepEntry, write_steps
from ebbtide.record.tables import TABLES
from ebbtide.record.verdict import AnomalyCount, Counts, Loss, Verdict
from ebbtide.scenario.facts import FACTS

ELR_ON = {"metadata.version": 27, "eligible.leader.replicas.version": 1}
ELR_OFF = {"metadata.version": 21, "eligible.leader.replicas.version": 0}
BEFORE_KIP_903 = {"metadata.version": 8}
TRANSITIONS = "every-transition-is-one-the-protocol-allows"


def ns(seconds: float) -> int:
    """Nanoseconds since an epoch that is not 0."""
    return 1_700_000_000_000_000_000 + int(seconds * 1e9)


class Story:
    """One run of partition t-0 with replicas 1, 2, 3 and min ISR 2, in the order of the metadata log.

    It has only the rows that a test tells: no broker is registered or unfenced by itself, and no two records of the
    metadata log are of one batch. Unless `whole_log` says otherwise, the log may have gaps (`timeline.gaps`).
    """

    def __init__(self, record: Path, *, kafka: str = "3.9.1", features: dict[str, int] = ELR_OFF, min_isr: int = 2):
        self.record = record
        self.manifest = Manifest(
            run_id="run-1",
            scenario="hand-made",
            kafka=kafka,
            features=features,
            status="complete",
            topology=Topology(controllers=(100,), brokers=(1, 2, 3)),
            topics={"t": TopicSetup(partitions=1, replication_factor=3, min_isr=min_isr)},
            start_ns=ns(0),
            end_ns=ns(60),
            final_consumer=999,
        )
        self.steps: list[StepEntry] | None = []
        self.tables: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
        self.lost: list[LostRange] = []
        self._lost_made: dict[tuple[int, int, int], tuple[int, int]] = {}
        self.regressions: list[HwRegression] = []
        self.vanished: list[VanishedRange] = []
        self.duplicates: list[Duplicates] = []
        self.aborted_reads: list[AbortedReads] = []
        self.hanging: list[HangingTransaction] = []
        self.commits: list[LostCommits] = []
        self.copies: list[WrongCopies] = []
        self.anomalies: list[AnomalyCount] = []
        self.unknown: dict[str, str] = {}
        self.counts = Counts(sends=1000, acked=1000, polls=2000)
        self.was_clock_set = False  # or else the times of the metadata log never go back
        self._offset = self.acked_commits = 0

    def state(self, at_s: float, **fields: Any) -> int:
        """One partition state; what is not given stays. Returns its metadata offset."""
        rows = self.tables["partitions"]
        before = rows[-1] if rows else usual_row("partitions", partition_epoch=-1)
        moved = rows and "leader" in fields
        row = {
            **before,
            "at_ns": ns(at_s),
            "metadata_offset": self._next(),
            "partition_epoch": before["partition_epoch"] + 1,
            "leader_epoch": before["leader_epoch"] + (1 if moved else 0),
            **fields,
        }
        rows.append(row)
        return int(row["metadata_offset"])

    def broker(self, at_s: float, broker: int, event: str = "registered") -> None:
        """One registration event; a registration brings a new epoch and incarnation."""
        offset = self._next()
        earlier = [row for row in self.tables["brokers"] if row["broker"] == broker]
        epoch = offset if event == "registered" or not earlier else earlier[-1]["broker_epoch"]
        self.tables["brokers"].append(
            {
                "metadata_offset": offset,
                "at_ns": ns(at_s),
                "broker": broker,
                "broker_epoch": epoch,
                "incarnation": f"incarnation-{epoch}",
                "event": event,
            }
        )

    def config(self, at_s: float, resource: str, name: str, value: str | None) -> None:
        """One config or feature-level change."""
        self.tables["configs"].append(
            {"metadata_offset": self._next(), "at_ns": ns(at_s), "resource": resource, "name": name, "value": value}
        )

    def step(self, at_s: float, step: str, *nodes: int, proven: bool = True, **proof: Any) -> None:
        """One step that fired; `proof` are the figures of its probe."""
        assert self.steps is not None
        self.steps.append(
            StepEntry(
                index=len(self.steps),
                step=step,
                nodes=nodes,
                fired_ns=ns(at_s),
                effect_ns=ns(at_s + 0.1) if proven else None,
                proof={"probe": "ok", **proof} if proven else proof,
            )
        )

    def power_loss(self, at_s: float, broker: int, *, end: int | None = 0, proven: bool = True) -> None:
        """Add a power loss after which the log of t-0 ends at `end`; None: that was not measured."""
        logs = {"t-0": {"leo_before": 1000, "leo_after": end}} if end is not None else {}
        self.step(at_s, "power-loss", broker, proven=proven, lost_bytes=4096, logs=logs)

    def hw(self, at_s: float, broker: int, epoch: int, hw: int) -> None:
        """One list_offsets answer."""
        times = {"asked_ns": ns(at_s), "at_ns": ns(at_s + 0.01)}
        said = usual_row("watermarks", broker=broker, leader_epoch=epoch, high_watermark=hw, **times)
        self.tables["watermarks"].append(said)

    def log(self, broker: int, *epochs: tuple[int, int, int]) -> None:
        """A replica's log after the run: (leader epoch, first offset, last offset) pieces."""
        for epoch, first, last in epochs:
            for offset in range(first, last + 1):
                value = value_of(offset, epoch)
                row = usual_row("replicas", broker=broker, offset=offset, leader_epoch=epoch, value=value)
                self.tables["replicas"].append(row)

    def lose(
        self,
        first: int,
        last: int,
        *,
        acked_s: float,
        acks: int = -1,
        committed: bool = True,
        sent_s: float | None = None,
        epoch: int | None = None,
    ) -> None:
        """Lost records, acknowledged at `acked_s`. `log` has those of an epoch that is given, and no others.

        Their sends are rows of the record, unless the story has rows of its own.
        """
        count = last - first + 1
        self.lost.append(
            LostRange(
                kind="lost",
                topic="t",
                partition=0,
                acks=acks,
                committed=committed,
                first_offset=first,
                last_offset=last,
                count=count,
                first_done_ns=ns(acked_s),
                last_done_ns=ns(acked_s),
            )
        )
        self.anomalies.append(AnomalyCount(kind="lost", topic="t", partition=0, count=count))
        sent_ns = ns(acked_s if sent_s is None else sent_s)
        self._lost_made[first, last, acks] = IN_NO_LOG if epoch is None else epoch, sent_ns

    def keep_all(self) -> None:
        """Take back what `lose` said."""
        self.lost = []
        self.anomalies = [one for one in self.anomalies if one.kind != "lost"]

    def regress(self, from_: int, to: int, *, epochs: tuple[int, int], at_s: tuple[float, float]) -> None:
        """A HW that went back between two observations."""
        self.regressions.append(
            HwRegression(
                kind="hw-regression",
                topic="t",
                partition=0,
                from_=from_,
                to=to,
                broker=1,
                earlier_leader_epoch=epochs[0],
                leader_epoch=epochs[1],
                earlier_at_ns=ns(at_s[0]),
                at_ns=ns(at_s[1]),
            )
        )
        self.anomalies.append(AnomalyCount(kind="hw-regression", topic="t", partition=0, count=1))

    def vanish_range(
        self,
        first: int,
        last: int,
        *,
        epoch: int | None,
        read_s: float,
        count: int | None = None,
        committed: bool = True,
    ) -> None:
        """Add records that a consumer read at `read_s`, and that are missing but not lost.

        They were written under `epoch`.
        """
        self._lose("vanished", first, last, epoch=epoch, count=count, committed=committed, read_ns=ns(read_s))

    def diverge(self, first: int, last: int, *, epoch: int | None) -> None:
        """Add offsets at which replicas hold different records below both HWs.

        The oldest record is of `epoch`.
        """
        self._lose("replica-divergence", first, last, epoch=epoch, committed=False)

    def _lose(
        self,
        kind: str,
        first: int,
        last: int,
        *,
        epoch: int | None,
        committed: bool,
        count: int | None = None,
        read_ns: int | None = None,
    ) -> None:
        count = count if count is not None else last - first + 1
        self.vanished.append(
            VanishedRange(
                kind=kind,
                topic="t",
                partition=0,
                leader_epoch=epoch,
                committed=committed,
                first_offset=first,
                last_offset=last,
                count=count,
                read_ns=read_ns,
            )
        )
        self.anomalies.append(AnomalyCount(kind=kind, topic="t", partition=0, count=count))

    def predict(self, prediction: str, *, kafka: str = ">=3.3", steps: int = 0) -> None:
        """A scenario.toml with one prediction, given as TOML lines, and that many steps."""
        step = '[[steps]]\nstep = "wait"\ntrigger = { acked = 1 }\n'
        (self.record / "scenario.toml").write_text(
            'name = "hand-made"\ntitle = "t"\ndescription = "d"\nkafka = ["3.9.1"]\n'
            "[topics.t]\npartitions = 1\nreplication_factor = 3\nmin_isr = 2\n"
            '[[producers]]\nid = 1\ntopic = "t"\ncount = 1000\n'
            + step * steps
            + f'[[predictions]]\nkafka = "{kafka}"\nclause = "a clause"\n{prediction}\n'
        )

    def write(self, *, missing: tuple[str, ...] = ()) -> None:
        """Write the record, without the tables in `missing`."""
        if not self.was_clock_set:
            let_times_rise(self.tables)
        write_manifest(RecordFolder(self.record), self.manifest)
        if self.steps is not None:
            write_steps(RecordFolder(self.record), self.steps)
        for name, rows in (
            self.tables
            | {"sends": [*self.tables["sends"], *lost_sends(self.lost, self._lost_made, self.tables["sends"])]}
        ).items():
            if rows and name not in missing:
                pq.write_table(pa.Table.from_pylist(rows, schema=TABLES[name]), self.record / f"{name}.parquet")

    def judge(self, *, missing: tuple[str, ...] = ()) -> Verdict:
        """Write the record and judge it on the given reconciliation."""
        self.write(missing=missing)
        found = (self.lost, self.regressions, self.vanished, self.duplicates, self.aborted_reads)
        reconciliation = Reconciliation(
            counts=self.counts,
            anomalies=self.anomalies,
            unknown=self.unknown,
            groups=[*chain(*found, self.hanging, self.commits, self.copies)],
            acked_commits=self.acked_commits,
        )
        verdict = verdict_of(as_record(self.record, self.manifest), reconciliation)
        assert verdict.coverage.keys() <= FACTS.keys()
        return verdict

    def change(self, **fields: Any) -> None:
        """Replace fields of the manifest."""
        self.manifest = msgspec.structs.replace(self.manifest, **fields)

    def _next(self) -> int:
        self._offset += 10
        return self._offset


NO_LOSS = 'loss = { committed = "none", uncommitted = "none" }'


def healthy_story(record: Path, prediction: str = NO_LOSS) -> Story:
    story = Story(record)
    story.state(1)
    story.step(2, "wait")
    story.predict(prediction, steps=1)
    return story


def last_replica_standing(record: Path, **setup: Any) -> Story:
    """Return a story in which the only broker of the ISR loses power and leads again.

    All brokers acked 1,000 records before the ISR shrank to broker 1.
    """
    story = Story(record, **setup)
    for broker in (1, 2, 3):
        story.broker(0, broker)
    story.state(1)
    story.state(10, isr=[1, 2])
    story.state(11, isr=[1])
    story.step(9, "partition", 0, 1, 2, 3, 100, cuts=["1>2", "2>1", "1>3", "3>1"])
    story.power_loss(12, 1)
    story.state(15, leader=-1)
    story.broker(20, 1)
    story.state(21, leader=1)
    story.state(30, isr=[1, 2, 3])
    story.lose(0, 999, acked_s=5)
    return story


def by_name(verdict: Verdict) -> dict[str, str]:
    """The status of each property."""
    return {one.name: one.status for one in verdict.properties}


def only_loss(verdict: Verdict) -> Loss:
    """The loss of a verdict that has exactly one."""
    assert len(verdict.losses) == 1, verdict.losses
    return verdict.losses[0]


def cause_and_leader(verdict: Verdict) -> tuple[str, int | None, int | None]:
    """Cause, leader and leader epoch of the only loss."""
    loss = only_loss(verdict)
    return loss.cause, loss.election and loss.election.leader, loss.election and loss.election.leader_epoch


def whole_log(story: Story) -> None:
    """The evidence says that the metadata log has no gap."""
    log = ControllerLog(controller=100, start_offset=0, end_offset=99, last_epoch=1, agreed_end_offset=99)
    save(
        RecordFolder(story.record),
        "timeline",
        TimelineReport(controller=100, how="the log of controller 100", end_offset=99, logs=(log,), missing=()),
    )
