"""Carries out a watch, and leaves a run record of it.

The order: topics, clients, the time of the watch, end of the producers, a leader for each partition, the final read,
the replicas' logs, the end of the metadata log, tables. The topics are in the ledger before they are made, and are
deleted on every way out.
"""

from __future__ import annotations

import contextlib
import secrets
import shlex
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from cluster.host.children import Child, start_child
from cluster.host.ledger import Ledger
from cluster.kafka_api.connection import BrokerConnection
from cluster.watched.watch_topic import connection_to
from ebbtide import run_clock
from ebbtide.errors import EbbtideError, HarnessError, UsageError
from ebbtide.journal.convert import convert_journals
from ebbtide.journal.payload import value_of
from ebbtide.kraft.follower import MetadataFollower
from ebbtide.kraft.image import MetadataImage, describe
from ebbtide.logs.segments import METADATA_FOLDER
from ebbtide.record.files import LOGS_DIR, RAW_DIR, RecordFolder, mark_going, write_atomically
from ebbtide.record.manifest import (
    FOREIGN,
    MANIFEST,
    NO_CONTROLLERS_NAMED,
    Manifest,
    Topology,
    WatchFacts,
    failure_keys,
    write_manifest,
)
from ebbtide.record.rows import PartitionState
from ebbtide.record.steps import write_steps
from ebbtide.record.sums import update_sums, write_sums
from ebbtide.record.verdict import unfinished_verdict, write_verdict
from ebbtide.releases.known_releases import minor_of
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.write import SCENARIO, text_of
from ebbtide.shown_text import plural, shown_path
from ebbtide.signals import is_interrupt
from ebbtide.waiting import WaitExpired, pause
from harness.runner.collect import RAW_LIMIT_BYTES
from harness.runner.display import Display
from harness.runner.host import client_versions, host_facts, make_record
from harness.runner.run import producer_setup, topic_setups
from harness.watch.marks import MARKS, MarkReader
from harness.watch.observer import MetadataObserver, read_replicas
from harness.watch.own_topics import OwnTopics
from harness.watch.plan import RUN_DIGITS, scenario_of
from harness.watch.probing import WatchedCluster, probe_cluster
from workloads.config import FINAL_CONSUMER, FinalRead
from workloads.group import Workload

_LOOK_S = 0.2
_CONTROLLERS_S = 5.0
_END_OF_LOG_S = 10.0
_TOPIC_S = 30.0
_FINAL_READ_S = 60.0
_REPLICAS_S = 120.0


class WatchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to watch, and for how long.

    Without `controllers` nobody reads the metadata log, and what depends on it stays unknown. `kafka` is the release
    that the user names. `workload` None: the default.
    """

    bootstrap: tuple[str, ...]
    controllers: tuple[str, ...] = ()
    command_config: str | None = None
    duration_s: float
    runs: Path
    kafka: str | None = None
    workload: Scenario | None = None


def watch_cluster(request: WatchRequest, display: Display) -> Path:
    """Watch a cluster; returns the folder of the record, which is not yet judged.

    Raises `UsageError` within 15 s for a cluster that cannot be watched, before anything is made. Raises
    `HarnessError` if Kafka refuses the topic, or the harness or a client failed.
    """
    cluster = probe_cluster(request.bootstrap, request.command_config, request.kafka)
    watch = _Watch(request, cluster, display)
    watch.carry_out()
    return watch.record.path


class _Watch:
    def __init__(self, request: WatchRequest, cluster: WatchedCluster, display: Display) -> None:
        self.request = request
        self.cluster = cluster
        self.display = display
        started = datetime.now(UTC)
        run = secrets.token_hex(RUN_DIGITS // 2)
        self.scenario = scenario_of(cluster, request.workload, run)
        release = minor_of(cluster.kafka) if cluster.is_assumed else cluster.kafka
        self.run_id = f"{started:%Y%m%dT%H%M%S}-{self.scenario.name}-{release}-{run}"
        self.record = RecordFolder((request.runs / self.run_id).absolute())
        self.manifest = self._first_manifest(started)
        self.topics = OwnTopics(
            self.run_id,
            self.scenario.topics,
            request.bootstrap,
            tuple(cluster.brokers.values()),
            request.command_config,
        )
        self._made: list[str] = []
        self._image = MetadataImage()
        self._timings: dict[str, float] = {}

    def carry_out(self) -> None:
        """Watch from start to end. Raises as `watch_cluster` does."""
        self._held = make_record(self.record)
        self._files = RecordFolder(self._held.path)
        with (
            contextlib.closing(self._held),
            self._record_failure(),
            contextlib.ExitStack() as going,
            contextlib.ExitStack() as undone,
            Ledger.open(self.run_id, self.record.path) as ledger,
        ):
            undone.callback(self._report_deletion, ledger)
            self._begin_record()
            going.enter_context(mark_going(self._files))
            workload = self._workload(ledger)
            try:
                self._follow_controllers()
                with self._time_phase("topic"):
                    for name in self.scenario.topics:
                        self.topics.make(ledger, name)
                        self._made.append(name)
                        self.display.note(f"made the topic {name}; it is deleted when the watch ends")
                    self._check_rights()
                    self.topics.await_leaders(_TOPIC_S, self._look_at_log)
                with self._time_phase("start clients"):
                    workload.use_topics(self.cluster.brokers)
                    workload.start()
                with self._time_phase("watch"):
                    self._watch(workload)
                with self._time_phase("end"):
                    final, why = self._end(workload)
            finally:
                workload.close()
                if self.observer is not None:
                    self.observer.close()
            with self._time_phase("tables"):
                torn_bytes = self._write_tables()
            self._amend(
                status="complete",
                end_ns=run_clock.now_ns(),
                final_consumer=FINAL_CONSUMER if final.offsets else None,
                final_offsets=final.offsets,
                final_transactions=final.transactions,
                failure=why,
                torn_journal_bytes=torn_bytes,
                timings_s=self._timings,
            )
            write_sums(self._files)
            self._held.require_in_place()
            going.close()
        self.display.note(f"recorded in {shown_path(self.record.path)}")

    def _report_deletion(self, ledger: Ledger) -> None:
        """Say that the topics which were made are deleted; if one is not, the error of the ledger says so."""
        if self._made and not ledger.entries():
            self.display.note(f"deleted {', '.join(self._made)}")

    def _check_rights(self) -> None:
        try:
            self.topics.check_rights(_TOPIC_S)
        except UsageError as error:
            # Without the right to delete the topic, the end of the ledger has an error of its own.
            self.display.note(f"{error.what}: {error.got}")
            raise

    def _connect(self, address: str) -> BrokerConnection:
        return connection_to(address, self.request.command_config)

    def _workload(self, ledger: Ledger) -> Workload:
        def start_client(argv: Sequence[str], *, name: str, output: Path) -> Child:
            return start_child(ledger, argv, name=name, output=output)

        workload = Workload(
            record=self._files,
            run_id=self.run_id,
            start_client=start_client,
            bootstrap=tuple(self.cluster.brokers.values()),
            topics=self.scenario.topics,
            assignments={},
            producers=self.scenario.producers,
            consumers=self.scenario.consumers,
            command_config=self.request.command_config,
        )
        self._amend(clients=self.manifest.clients | workload.settings())
        return workload

    def _follow_controllers(self) -> None:
        if self.observer is None:
            self.display.note(
                "without --controllers nobody reads the metadata log: which election lost a record stays unknown"
            )
            return
        self.observer.start()
        try:
            self.observer.await_caught_up(_CONTROLLERS_S)
        except WaitExpired as error:
            raise UsageError(
                "no controller gives the metadata log",
                where=f"--controllers {','.join(self.request.controllers)}",
                got=error.last_seen,
                allowed="the host:port of the controllers' listener, and a user with the right ClusterAction on the "
                "cluster",
                next="leave --controllers out to watch without the metadata log",
            ) from None
        self._look_at_log()

    def _watch(self, workload: Workload) -> None:
        runs = "" if self.request.runs == Path("runs") else f" --runs {shlex.quote(str(self.request.runs))}"
        self.display.note(
            f"watching for {self.request.duration_s:g} s; to note what you do: `ebbtide watch mark{runs} TEXT`; "
            f"to end: `ebbtide watch end{runs}`"
        )
        until_s = time.monotonic() + self.request.duration_s
        while time.monotonic() < until_s and not self.marks.is_ended:
            self._held.require_in_place()
            workload.check()
            self._look_at_log()
            self._look_at_marks()
            pause(_LOOK_S)
        self._look_at_marks()

    def _look_at_log(self) -> None:
        """Show what the metadata log has that is new."""
        if self.observer is None:
            return
        for row in self._image.apply(self._follower.poll()):
            if isinstance(row, PartitionState) and row.topic in self.scenario.topics:
                self.display.note(describe(row))

    def _look_at_marks(self) -> None:
        before = len(self.marks.entries)
        if self.marks.poll():
            write_steps(self._files, self.marks.entries)
            for entry in self.marks.entries[before:]:
                self.display.note(f"mark: {entry.whom}")

    def _end(self, workload: Workload) -> tuple[FinalRead, str | None]:
        """Read everything; returns what the final read found, and why it found nothing."""
        workload.stop_producers()
        counts = workload.send_counts()
        self.display.note(
            f"{plural(counts.acked, 'record')} acked, {counts.unknown:,} unknown, {counts.failed:,} failed"
        )
        final = FinalRead(offsets={})
        why = None
        try:
            self.topics.await_leaders(self.scenario.settle_s, self._look_at_log)
            final = workload.final_read(_FINAL_READ_S)
        except HarnessError as error:
            self._held.name_in(error)
            why = f"there is no final read: {error}"
            self.display.note(why)
        workload.stop()
        missing = read_replicas(
            self.cluster.brokers,
            {at: self.topics.replicas.get(at) for at in self.topics.partitions},
            self._files / RAW_DIR,
            self._connect,
            limit_bytes=RAW_LIMIT_BYTES,
            timeout_s=_REPLICAS_S,
        )
        for name, reason in missing.items():
            self.display.note(f"the log of {name} is not in the record: {reason}")
        why_log_ends: str | None = NO_CONTROLLERS_NAMED
        distance_ms = None
        if self.observer is not None:
            self.observer.finish(_END_OF_LOG_S)
            self._look_at_log()
            why_log_ends, distance_ms = self.observer.problem, self.observer.clock_distance_ms
        if why_log_ends is not None:
            self.display.note(why_log_ends)
        self._amend(
            features=dict(self._image.features) or self.manifest.features,
            raw_limit_bytes=RAW_LIMIT_BYTES,
            raw_omitted=tuple(missing),
            watch=WatchFacts(why_log_ends=why_log_ends, clock_distance_ms=distance_ms),
        )
        return final, why

    def _write_tables(self) -> int:
        from analysis.evidence.collect import write_checkpoints, write_replicas, write_timeline

        self._look_at_marks()
        (self._files / MARKS).unlink(missing_ok=True)
        torn_bytes = convert_journals(self._files)
        write_timeline(self._files)
        write_replicas(self._files, value_of(self.run_id))
        write_checkpoints(self._files)
        return torn_bytes

    def _begin_record(self) -> None:
        request, cluster = self.request, self.cluster
        self.marks = MarkReader(self._files)
        controller = min(cluster.voters, default=0)
        folder = self._files / RAW_DIR / f"controller-{controller}" / METADATA_FOLDER
        self._follower = MetadataFollower(folder)
        self.observer = (
            MetadataObserver(request.controllers, folder, tuple(self.scenario.topics), self._connect)
            if request.controllers
            else None
        )
        (self._files / LOGS_DIR).mkdir()
        write_verdict(self._files, unfinished_verdict(self.run_id))
        write_manifest(self._files, self.manifest)
        write_steps(self._files, [])
        write_atomically(self._files / SCENARIO, text_of(self.scenario).encode())
        brokers = ", ".join(f"{one} at {address}" for one, address in self.cluster.brokers.items())
        self.display.note(f"watch {self.run_id}")
        self.display.note(f"Kafka {self.cluster.shown_kafka} ({self.cluster.release_how}), brokers {brokers}")

    @contextlib.contextmanager
    def _time_phase(self, phase: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self._timings[phase] = round(time.monotonic() - began, 3)
            self.display.note(f"{phase}: {self._timings[phase]:.1f} s")

    @contextlib.contextmanager
    def _record_failure(self) -> Iterator[None]:
        """Write into the manifest why the watch ended early, and raise it again."""
        try:
            yield
        except BaseException as error:
            self._held.name_in(error)
            cut_short = is_interrupt(error)
            keys = {"failure": "interrupted by a signal"} if cut_short else failure_keys(error)
            if self.manifest.status != "complete":
                with contextlib.suppress(OSError, EbbtideError):
                    self._amend(status="interrupted" if cut_short else "failed", **keys)
            if cut_short:
                record = shlex.quote(shown_path(self.record.path))
                self.display.note(f"recorded, but not judged; next: ebbtide analyze {record}")
            raise

    def _amend(self, **changes: Any) -> None:
        self.manifest = msgspec.structs.replace(self.manifest, **changes)
        write_manifest(self._files, self.manifest)
        update_sums(self._files, MANIFEST.__eq__)

    def _first_manifest(self, started: datetime) -> Manifest:
        return Manifest(
            run_id=self.run_id,
            scenario=self.scenario.name,
            kafka=self.cluster.kafka,
            kafka_assumed=self.cluster.is_assumed,
            features=self.cluster.features,
            runtime=FOREIGN,
            topology=Topology(controllers=self.cluster.voters, brokers=tuple(self.cluster.brokers)),
            topics=topic_setups(self.scenario),
            producers={str(one.id): producer_setup(one) for one in self.scenario.producers},
            clients=client_versions(),
            host=host_facts(),
            start_ns=int(started.timestamp() * 1e9),
            watch=WatchFacts(why_log_ends="the watch ended before the end of the metadata log was read"),
        )
