"""Runs a scenario and leaves a run record.

A run builds the cluster, carries out the steps and reads everything. The record is true at every moment: the manifest
first says `interrupted` and verdict.json that the run was not judged. A harness that is killed therefore leaves a
record that can be judged as far as it goes.
"""

from __future__ import annotations

import contextlib
import secrets
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from cluster.host.host_ports import HostPorts
from cluster.host.ledger import Ledger
from cluster.host.writeback import write_back_settings
from cluster.jars.releases import digests_to_record
from cluster.runtime.base import PowerLossMethod, RuntimeSettings
from cluster.runtime.choose import Choice, LocalChoice, open_runtime
from cluster.runtime.cluster import Runtime
from cluster.runtime.jvm import ensure_class_archive, installation_of
from ebbtide import run_clock
from ebbtide.errors import Disturbed, EbbtideError, HarnessError
from ebbtide.journal.convert import has_journals
from ebbtide.record.files import QUORUM_FILE, RecordFolder, mark_going, write_atomically
from ebbtide.record.manifest import (
    ACKS,
    MANIFEST,
    Manifest,
    NodeRelease,
    ProducerSetup,
    TopicSetup,
    Topology,
    failure_keys,
    write_manifest,
)
from ebbtide.record.own_producers import WireFacts
from ebbtide.record.sums import update_sums, write_sums
from ebbtide.record.verdict import unfinished_verdict, write_verdict
from ebbtide.releases.builds import RecordedBuild, build_of, is_build, number_of
from ebbtide.releases.known_releases import parse_version
from ebbtide.scenario.kafka_settings import DEFAULT_LIBRARY
from ebbtide.scenario.model import ClusterSpec, ProducerSpec, Scenario
from ebbtide.scenario.safety import refuse_unsafe
from ebbtide.scenario.words import FIRST_CONTROLLER
from ebbtide.scenario.write import SCENARIO, recorded_text_of
from ebbtide.shown_text import shown_path
from ebbtide.signals import is_interrupt
from harness.runner.collect import RAW_LIMIT_BYTES, collect_raw, write_answered_high_watermarks, write_tables
from harness.runner.display import Display
from harness.runner.ending import End
from harness.runner.gates import Gate
from harness.runner.host import client_versions, host_facts, is_disk_full, java_tools, make_record, require_libraries
from harness.runner.session import Session, draw
from harness.runner.settings_check import check_settings, unknown_properties_error
from workloads.config import FINAL_CONSUMER


class RunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One scenario to run on one Kafka release; the record is made in `runs`.

    - `hold_write_back` false lets the kernel write back what a power loss should take, as the scenario's
      `write_back = "kernel"` asks for.
    - `replay_of` is the id of the run whose schedule this is; `gates` are the gates of its steps, by index.
    - `allow_unknown_properties`: the scenario is that of a record, which cannot be corrected. A property that Kafka
      ignores is then a note, not an error.
    - `host_ports`: ports on the host's loopback that lead to the brokers. The caller closes them.
    """

    scenario: Scenario
    kafka: str
    seed: int
    runs: Path
    runtime: Choice = LocalChoice()
    power_loss_method: PowerLossMethod = "fs-shutdown"
    hold_write_back: bool = True
    replay_of: str | None = None
    allow_unknown_properties: bool = False
    gates: Mapping[int, Gate] = {}
    host_ports: HostPorts | None = None


def new_seed() -> int:
    """Return a random seed."""
    return secrets.randbelow(2**31)


class ClusterAfterRun(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster that is still up after its run; the run's record is complete."""

    record: RecordFolder
    run_id: str
    cluster: ClusterSpec
    runtime: Runtime


def run_scenario(
    request: RunRequest,
    display: Display,
    drive: Callable[[Session], None] = Session.carry_out,
    hold: Callable[[ClusterAfterRun], None] | None = None,
) -> Path:
    """Run a scenario; returns the folder of its record, which is not yet judged.

    - `drive` takes the session from `open` to `finish`.
    - `hold` gets the cluster when the record is complete; the cluster ends when `hold` returns.

    Raises `HarnessError` if the harness or its host failed, and `UsageError` for a setting that Kafka refuses. The
    record keeps that failure, and can be judged as far as it goes. Raises `UsageError` before anything is made for a
    scenario that could write outside the record.
    """
    run = _Run(request, display)
    run.carry_out(drive, hold)
    return run.record.path


class _Run:
    def __init__(self, request: RunRequest, display: Display) -> None:
        parse_version(request.kafka)
        self.request = request
        self.scenario = request.scenario
        # What another release of the file may have is no reason to give it to this one.
        refuse_unsafe(self._scenario_as_run())
        self.display = display
        self.draws = draw(request.scenario, request.seed)
        started, self._started_ns = datetime.now(UTC), run_clock.now_ns()
        kafka = request.kafka.replace("@", "-")
        self.run_id = f"{started:%Y%m%dT%H%M%S}-{self.scenario.name}-{kafka}-{secrets.token_hex(2)}"
        self.record = RecordFolder((request.runs / self.run_id).absolute())
        self.manifest = self._first_manifest(started)
        self._going = contextlib.ExitStack()
        self._ignored: tuple[str, ...] = ()

    def carry_out(self, drive: Callable[[Session], None], hold: Callable[[ClusterAfterRun], None] | None) -> None:
        require_libraries(self.scenario)
        if ignored := check_settings(self._scenario_as_run(), self.display.note):
            error = unknown_properties_error(ignored)
            if not self.request.allow_unknown_properties:
                raise error
            self.display.note(error.what)
            self._ignored = tuple(one.where for one in ignored)
        if isinstance(self.request.runtime, LocalChoice):
            self._ensure_class_archives()
        tools = java_tools(self.scenario, self.request.kafka, self.display.note)
        self._held = make_record(self.record)
        self._files = RecordFolder(self._held.path)
        with (
            contextlib.closing(self._held),
            self._record_failure(),
            self._going,
            Ledger.open(self.run_id, self.record.path) as ledger,
        ):
            self._begin_record()
            self._going.enter_context(mark_going(self._files))
            self._held.require_in_place()
            runtime = open_runtime(
                self.request.runtime,
                RuntimeSettings(
                    spec=self.scenario.cluster,
                    kafka=self.request.kafka,
                    folder=self.record.path,
                    ledger=ledger,
                    power_loss_method=self.request.power_loss_method,
                    hold_write_back=self.request.hold_write_back,
                    host_ports=self.request.host_ports,
                ),
            )
            runtime.releases.follow(self._note_releases)
            session = Session(
                self._scenario_as_run(),
                self.draws,
                runtime,
                self.run_id,
                self.record,
                self.display,
                self.request.gates,
                tools=tools,
                held=self._held,
            )
            self._amend(clients=self.manifest.clients | session.client_settings)
            ended = False
            try:
                try:
                    try:
                        drive(session)
                    except Disturbed as error:
                        self._held.name_in(error)
                        self.display.note(str(error))
                        session.end, hold = End(disturbed=error), None
                    ended = True
                finally:
                    # A run that was cut short is evidence too, so its files are copied before the nodes are removed.
                    with contextlib.nullcontext() if ended else contextlib.suppress(EbbtideError, OSError):
                        self._take_evidence(session, runtime, leave_nodes=ended and hold is not None)
                if hold is not None:
                    self._complete(session)
                    cluster = self.scenario.cluster
                    hold(ClusterAfterRun(record=self.record, run_id=self.run_id, cluster=cluster, runtime=runtime))
            finally:
                with (
                    self._note_cleanup_failure() if not ended else contextlib.nullcontext(),
                    session.time_phase("close"),
                ):
                    runtime.close()
            if hold is None:
                self._complete(session)

    def _take_evidence(self, session: Session, runtime: Runtime, *, leave_nodes: bool) -> None:
        session.close(leave_nodes=leave_nodes)
        with session.time_phase("collect"):
            omitted = collect_raw(runtime, self.scenario.topics, self._files, own_clients=session.end.wire is not None)
            write_answered_high_watermarks(self._files, session.end.final.answered.reached)
            lines = [msgspec.json.encode(one) + b"\n" for one in session.view.committed]
            write_atomically(self._files / QUORUM_FILE, b"".join(lines))
        self._amend(
            features=dict(session.features),
            topic_ids=dict(session.view.image.topic_ids),
            ignored_properties=self._ignored,
            host=self.manifest.host | (write_back_settings() if self.manifest.write_back == "kernel" else {}),
            raw_limit_bytes=RAW_LIMIT_BYTES,
            raw_omitted=omitted,
            end_ns=run_clock.now_ns(),
        )

    def _complete(self, session: Session) -> None:
        with session.time_phase("tables"):
            torn_bytes = write_tables(self._files, self.run_id)
        if torn_bytes:
            self.display.note(f"left out {torn_bytes} bytes of incomplete entries at the ends of journals")
        end = session.end
        self._amend(
            status="complete" if end.disturbed is None else "failed",
            final_consumer=FINAL_CONSUMER if end.final.offsets else None,
            final_offsets=end.final.offsets,
            final_transactions=end.final.transactions,
            gone_topics=end.gone_topics,
            node_ends=tuple(session.node_ends.found),
            **({} if end.wire is None else {"wire": end.wire}),
            disturbed=end.disturbed is not None,
            torn_journal_bytes=torn_bytes,
            timings_s=session.timings_s,
            **({"failure": end.why_no_final_read} if end.disturbed is None else failure_keys(end.disturbed)),
        )
        write_sums(self._files)
        self._held.require_in_place()
        self._going.close()
        self.display.note(f"recorded in {shown_path(self.record.path)}")

    def _scenario_as_run(self) -> Scenario:
        return msgspec.structs.replace(self.scenario, kafka=(self.request.kafka,))

    def _ensure_class_archives(self) -> None:
        for kafka in dict.fromkeys((self.request.kafka, *self.scenario.other_releases)):
            installation = installation_of(kafka)
            if not installation.archive().is_file():
                self.display.note(f"making a class archive of Kafka {kafka}, for quick starts (once)")
            ensure_class_archive(installation)

    @contextlib.contextmanager
    def _note_cleanup_failure(self) -> Iterator[None]:
        """Note what could not be undone after a failure, without hiding the failure."""
        try:
            yield
        except EbbtideError as error:
            self.display.note(str(error))

    def _begin_record(self) -> None:
        write_verdict(self._files, unfinished_verdict(self.run_id))
        write_manifest(self._files, self.manifest)
        write_atomically(self._files / SCENARIO, recorded_text_of(self._scenario_as_run()).encode())
        self.display.note(f"run {self.run_id}, seed {self.request.seed}")
        self.display.note(self.request.runtime.describe())
        for name, value in self.draws.lines().items():
            self.display.note(f"drawn: {name} = {value}")

    @contextlib.contextmanager
    def _record_failure(self) -> Iterator[None]:
        """Write the error that ended the run into the manifest, and raise it again.

        A full disk may have no room for it.
        """
        try:
            yield
        except BaseException as error:
            if is_interrupt(error):
                self._record_interrupt()
                raise
            self._held.name_in(error)
            full = is_disk_full(error, self._held.path)
            keys = {"failure": "the disk was full while recording"} if full else failure_keys(error)
            with contextlib.suppress(OSError):
                self._amend(status="failed", **keys)
            self.display.note(f"failed; what was recorded is in {self.record}")
            if not full:
                raise
            raise HarnessError(
                "the disk is full while recording",
                where=str(self.record),
                got=str(error).partition("\n")[0],
                next=f"free some space (df -h {self.request.runs}), then run again; this record is not complete",
            ) from None

    def _record_interrupt(self) -> None:
        with contextlib.suppress(OSError):
            self._amend(status="interrupted", failure="interrupted by a signal")
        if has_journals(self.record) or self.record.files("sends"):
            self.display.note(f"to judge the run so far: ebbtide analyze {shlex.quote(str(self.record))}")
        else:
            self.display.note(f"nothing was sent, so there is nothing to judge; what was recorded is in {self.record}")

    def _note_releases(self, releases: Mapping[int, Sequence[NodeRelease]]) -> None:
        self._amend(releases={str(node): tuple(each) for node, each in sorted(releases.items())})

    def _amend(self, **changes: Any) -> None:
        """Write the manifest again with these changes."""
        self.manifest = msgspec.structs.replace(self.manifest, **changes)
        write_manifest(self._files, self.manifest)
        update_sums(self._files, MANIFEST.__eq__)

    def _unknown_jars(self) -> dict[str, dict[str, str]]:
        """Return the digests of jars that the project does not know, by release. An image is known by its id."""
        if self.request.runtime.name != "local":
            return {}
        releases = dict.fromkeys((self.request.kafka, *self.scenario.other_releases))
        # The build that the run starts with has its digests in `build`.
        names = (kafka for kafka in releases if kafka != self.request.kafka or not is_build(kafka))
        found = {kafka: digests_to_record(kafka) for kafka in names}
        return {kafka: dict(digests) for kafka, digests in found.items() if digests}

    def _build(self) -> RecordedBuild | None:
        kafka = self.request.kafka
        if not is_build(kafka):
            return None
        build = build_of(kafka)
        return RecordedBuild(version=build.version, commit=build.commit, digests=dict(digests_to_record(kafka)))

    def _first_manifest(self, started: datetime) -> Manifest:
        cluster = self.scenario.cluster
        has_volumes = self.request.power_loss_method == "fs-shutdown"
        is_recorded = self.request.host_ports is not None and self.request.host_ports.records
        return Manifest(
            run_id=self.run_id,
            scenario=self.scenario.name,
            replay_of=self.request.replay_of,
            seed=self.request.seed,
            kafka=number_of(self.request.kafka),
            build=self._build(),
            jars=self._unknown_jars(),
            runtime=self.request.runtime.name,
            power_loss_method=self.request.power_loss_method,
            write_back=("held" if self.request.hold_write_back else "kernel") if has_volumes else None,
            file_system=(cluster.file_system or "ext4") if has_volumes else None,
            log_dirs=cluster.log_dirs,
            topology=Topology(
                controllers=tuple(range(FIRST_CONTROLLER, FIRST_CONTROLLER + cluster.controllers)),
                brokers=tuple(range(1, cluster.brokers + 1)),
            ),
            topics=topic_setups(self.scenario),
            producers={str(one.id): producer_setup(one) for one in self.scenario.producers},
            clients=client_versions(),
            host=host_facts() | self.request.runtime.host_facts(),
            draws=self.draws.lines(),
            wire=WireFacts(why_incomplete="the run ended before what passed was decoded") if is_recorded else None,
            start_ns=self._started_ns,
        )


def topic_setups(scenario: Scenario) -> dict[str, TopicSetup]:
    """Return the topics of a scenario as the manifest has them."""
    return {
        name: TopicSetup(
            partitions=topic.partitions, replication_factor=topic.replication_factor, min_isr=topic.min_isr
        )
        for name, topic in scenario.topics.items()
    }


def producer_setup(producer: ProducerSpec) -> ProducerSetup:
    """Return a producer of a scenario as the manifest has it."""
    return ProducerSetup(
        acks=ACKS[producer.acks],
        idempotent=producer.idempotent or producer.transactional,
        transactional=producer.transactional,
        client=None if producer.library == DEFAULT_LIBRARY else producer.library,
    )
