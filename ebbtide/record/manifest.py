"""manifest.json: what a run was, and what its end is measured against.

It is first written with the status `interrupted`, so that a killed harness leaves the truth. It is replaced, never
edited, when more is known.
"""

from __future__ import annotations

import os
import shlex
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from ebbtide.errors import EbbtideError, UsageError
from ebbtide.record.contents import check_contents
from ebbtide.record.files import RecordFolder, check_ended, is_going, write_atomically
from ebbtide.record.node_times import NodeEnd
from ebbtide.record.own_producers import WireFacts
from ebbtide.releases.builds import RecordedBuild
from ebbtide.releases.known_releases import shown_release
from ebbtide.scenario.foreign_files import foreign_error_at
from ebbtide.scenario.model import Acks, FileSystem, WriteBack
from ebbtide.shown_text import without_middle
from ebbtide.untrusted.files import is_file, is_folder, read_file
from ebbtide.untrusted.values import decode_json

MANIFEST = "manifest.json"

PLAIN_CLUSTER = "cluster"
"""The scenario's name in the record of a cluster without a scenario."""


class NoRecord(UsageError):
    """The path does not hold a record."""


RECORD_VERSION = 1
"""The version of the record format that this Ebbtide writes, and the newest that it reads."""

_REASON_MAX = 600
"""How many characters a reason has, but for the note that says how many are left out."""
_NAMED_MAX = 5
"""How many records of a folder an error names."""

Status = Literal["complete", "interrupted", "failed"]
NodeId = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Count = Annotated[int, msgspec.Meta(ge=0)]
Partitions = Annotated[int, msgspec.Meta(ge=0, le=10_000)]
Replicas = Annotated[int, msgspec.Meta(ge=0, le=2**15 - 1)]
"""Kafka's int16."""
_Few = msgspec.Meta(max_length=1_000)
_Many = msgspec.Meta(max_length=100_000)
_PARTITIONS_MAX = 100_000
_BYTES_MAX = 64 << 20
"""A manifest has some kilobytes. Its counts have bounds as well: some bytes can stand for 10^12 partitions."""
TimeNs = Annotated[int, msgspec.Meta(ge=0)]


class Topology(msgspec.Struct, frozen=True, kw_only=True):
    """Node ids by role."""

    controllers: Annotated[tuple[NodeId, ...], _Few] = ()
    brokers: Annotated[tuple[NodeId, ...], _Few] = ()


class TopicSetup(msgspec.Struct, frozen=True, kw_only=True):
    """A topic as created: counts, not ids."""

    partitions: Partitions
    replication_factor: Replicas
    min_isr: Replicas


ACKS: dict[Acks, int] = {"0": 0, "1": 1, "all": -1}
"""acks by their spelling in configurations; the numbers are those of Kafka, the manifest and the tables."""

ACKS_SPELLED: dict[int, Acks] = {number: spelled for spelled, number in ACKS.items()}


class ProducerSetup(msgspec.Struct, frozen=True, kw_only=True):
    """A producer as configured; acks as a number, see `ACKS`. `client`: its library; None means kafka-python."""

    acks: int
    idempotent: bool = False
    transactional: bool = False
    client: str | None = None


class NodeRelease(msgspec.Struct, frozen=True, kw_only=True):
    """A release that a node runs from `started_ns` on, until its next one starts."""

    kafka: str
    started_ns: TimeNs


class FinalOffsets(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Log start and HW of one partition when the final consumer read it.

    `last_stable`: its last stable offset at that time; null: nobody asked for it.
    """

    log_start: int
    high_watermark: int
    last_stable: int | None = None


ENDED_STATES = ("Empty", "CompleteCommit", "CompleteAbort")
"""The states of a transactional id in which its coordinator has no transaction open."""
STILL_S = 5.0
"""How long a last stable offset below the HW must stand still after every transaction ended: markers apply by then."""


class FinalTransactions(msgspec.Struct, frozen=True, kw_only=True):
    """What coordinators said of the run's transactions, before the final read asked for the last stable offsets.

    - `states` has the state of each transactional id, in Kafka's words; null: no coordinator named the id.
    - `silent` are the brokers that did not answer.
    - `waited_s` is how long open transactions were waited for. No producer ran any more.
    - `still` has the last stable offset of each partition where it stood still below the HW for `STILL_S`, after
      every transaction had ended, under one leader epoch and with one HW.
    """

    states: dict[str, str | None] = {}
    silent: tuple[str, ...] = ()
    waited_s: float = 0.0
    still: dict[str, int] = {}

    def why_open(self) -> str | None:
        """Say why a transaction may still be open; None if every one has ended."""
        if self.silent:
            return f"{', '.join(self.silent)} did not say which transactions it coordinates"
        still = {name: state for name, state in sorted(self.states.items()) if state not in ENDED_STATES}
        if still:
            named = ", ".join(f"{name} is {state or 'not known to any'}" for name, state in still.items())
            return f"the coordinators had not ended every transaction after {self.waited_s:.0f} s: {named}"
        return None


FOREIGN = "foreign"
"""The runtime of a cluster that Ebbtide did not start, and only watched."""

NO_CONTROLLERS_NAMED = "nobody read the metadata log: no --controllers were named"
"""Why a watch has no metadata log, as `WatchFacts.why_log_ends`."""


class WatchFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a cluster that Ebbtide watched.

    - `why_log_ends` says why the metadata log is missing, or ends before the watch did; null: it is whole.
    - `clock_distance_ms` is how far the clock of a controller was from that of the watching host; null: not known.
    """

    why_log_ends: str | None = None
    clock_distance_ms: Count | None = None


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of manifest.json that readers rely on; unknown keys are ignored.

    - `final_offsets` is keyed `topic-partition`; `final_consumer` is null when there was no final read.
    - `clients` holds library versions, and by its name the settings of each client of the scenario.
    - `final_transactions`: what was known of the transactions before the final read; null: nobody asked.
    - `node_ends`: the nodes that Kafka itself ended. `gone_topics`: nobody knew them at the end; no step deleted them.
    - `raw_limit_bytes` is the size up to which a replica's segments were kept in raw/; `raw_omitted` names the
      `broker-N/topic-P` logs that exceeded it, or that their brokers did not give to a watch.
    - `failure` says why a run is not complete. If an error says so, `failure` is its whole message, `failure_clause`
      is what is wrong, where and what was found in one line, and `failure_next` is what to type next.
    - `disturbed`: the run is not complete because something outside of it interfered with its processes, which no
      prediction allows for.
    - `torn_journal_bytes`: bytes at the ends of the clients' journals that are no whole entry, and in no table.
    - `write_back` says under which write-back of dirty pages power was lost: held by the harness, or by the kernel's
      own settings, which `host` then has. Null: not known, or power was lost by `truncate`, which takes all the same.
    - `file_system` is that of the nodes' volumes; null: not known, or the nodes had no volumes.
    - `log_dirs`: how many log directories each broker had; null: one. `replay_of`: whose schedule was run again.
    - `topic_ids` has the name of each topic by its id, as Kafka prints ids. Empty: not known.
    - `kafka` is the release on which the topics were made; with `kafka_assumed` the judge assumes its patch.
    - `releases` has, by node id and oldest first, each release that the node ran; empty: every node ran `kafka`.
    - `build`: what ran is no published release; `kafka` has its three numbers. Null: the release `kafka` ran.
    - `jars` has the SHA-256 of each jar by name, for each release that ran from jars and is not among the known ones.
    - `ignored_properties`, by their paths in the scenario, had no effect: this release does not know them.
    - `watch`: the cluster was not Ebbtide's own (`ebbtide watch`); null: it was.
    - `wire`: clients of one's own could reach the cluster by published ports, and were recorded; null: they were not.
    """

    record_version: int = RECORD_VERSION
    run_id: str
    scenario: str = ""
    replay_of: str | None = None
    ignored_properties: tuple[str, ...] = ()
    seed: int | None = None
    kafka: str = ""
    kafka_assumed: bool = False
    build: RecordedBuild | None = None
    releases: Annotated[dict[str, Annotated[tuple[NodeRelease, ...], _Few]], _Few] = {}
    jars: Annotated[dict[str, Annotated[dict[str, str], _Few]], _Few] = {}
    features: dict[str, int] = {}
    runtime: str = ""
    power_loss_method: str | None = None
    write_back: WriteBack | None = None
    log_dirs: int | None = None
    file_system: FileSystem | None = None
    topology: Topology = Topology()
    topics: Annotated[dict[str, TopicSetup], _Many] = {}
    topic_ids: Annotated[dict[str, str], _Many] = {}
    producers: Annotated[dict[str, ProducerSetup], _Few] = {}
    clients: Annotated[dict[str, str], _Few] = {}
    host: dict[str, str] = {}
    draws: dict[str, str] = {}
    timings_s: dict[str, float] = {}
    start_ns: TimeNs | None = None
    end_ns: TimeNs | None = None
    status: Status = "interrupted"
    failure: str | None = None
    failure_clause: str | None = None
    failure_next: str | None = None
    disturbed: bool = False
    final_consumer: int | None = None
    final_offsets: Annotated[dict[str, FinalOffsets], _Many] = {}
    final_transactions: FinalTransactions | None = None
    gone_topics: Annotated[tuple[str, ...], _Many] = ()
    node_ends: Annotated[tuple[NodeEnd, ...], _Few] = ()
    raw_limit_bytes: Count | None = None
    raw_omitted: Annotated[tuple[str, ...], _Many] = ()
    torn_journal_bytes: Count = 0
    watch: WatchFacts | None = None
    wire: WireFacts | None = None

    @property
    def why_incomplete(self) -> str | None:
        """Why the run is not complete, in one line.

        A record without `failure_clause` has only the message, or a sentence. Its advice is no reason. The middle of a
        long reason, such as the last lines of a log, is left out.
        """
        clause = self.failure_clause
        if clause is None and self.failure is not None:
            return reason_of_message(self.failure)
        return without_middle(clause, _REASON_MAX) if clause is not None else None

    @property
    def why_no_final_read(self) -> str | None:
        """Why a complete run has no final read, in one line; None if it has one, or is not complete."""
        return self.why_incomplete if self.status == "complete" and self.final_consumer is None else None

    @property
    def shown_kafka(self) -> str:
        """The release in words, as every text has it; `unknown` if the record has none."""
        return shown_release(self.kafka_name, is_assumed=self.kafka_assumed)

    @property
    def kafka_name(self) -> str:
        """The release or the build, as `--kafka` takes it."""
        return self.kafka if self.build is None else self.build.name

    @property
    def release_path(self) -> tuple[str, ...]:
        """Each release that a node ran, in the order in which the first node started on it."""
        starts = sorted((one.started_ns, one.kafka) for each in self.releases.values() for one in each)
        return tuple(dict.fromkeys(kafka for _, kafka in starts)) or (self.kafka,)

    @property
    def named_path(self) -> tuple[str, ...]:
        """The releases of `release_path`, by the name of the build where one ran."""
        return tuple(self.kafka_name if kafka == self.kafka else kafka for kafka in self.release_path)


def reason_of_message(message: str) -> str:
    """Return the message of an error as a reason: in one line, without what is allowed and what to type next.

    The middle of a long reason is left out.
    """
    lines = takewhile(lambda line: not line.startswith(("  allowed:", "  next:")), message.splitlines())
    return without_middle(" ".join(" ".join(lines).split()), _REASON_MAX)


def failure_keys(error: BaseException) -> dict[str, str | None]:
    """Return the keys of the manifest of a run that this error ended."""
    if isinstance(error, EbbtideError):
        return {"failure": error.render(), "failure_clause": error.as_clause(), "failure_next": error.next}
    return {"failure": str(error) or repr(error)}


def write_manifest(record: RecordFolder, manifest: Manifest) -> None:
    """Replace the record's manifest in one step."""
    write_atomically(record / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")


def is_record(path: Path) -> bool:
    """Whether the path is the folder of a run record."""
    # Unlike `Path.is_file`, this raises for no name, however long.
    return is_file(path / MANIFEST)


def list_records(missing: Path) -> str:
    """Return the command that lists the records beside a path which has none, or those under ./runs."""
    where = f" --runs {shlex.quote(str(missing.parent))}" if records_of(missing.parent) else ""
    return f"ebbtide runs{where}    (lists the records {'there' if where else 'under ./runs'})"


def records_of(folder: Path) -> list[Path]:
    """Return the records in a folder by name, which is oldest first."""
    return sorted(path.parent for path in folder.glob(f"[!.]*/{MANIFEST}"))


def is_plain_cluster(manifest: Manifest) -> bool:
    """Whether the record is of a cluster by hand, without a scenario: nothing was sent that could be judged."""
    return manifest.scenario == PLAIN_CLUSTER and not manifest.topics


def read_run(record: RecordFolder) -> Manifest:
    """Return the manifest of a run of a scenario that has ended.

    Raises as `read_manifest` does, and `UsageError` for the record of a plain cluster and for a run that is still
    going.
    """
    manifest = read_manifest(record)
    if is_plain_cluster(manifest):
        raise UsageError(
            "this is the record of a plain cluster, without a scenario to judge or to run again",
            where=str(record),
            got="its steps are in steps.jsonl, the nodes' logs in logs/",
            allowed="the record of a run, or of a cluster that was brought up from a scenario",
            next="ebbtide cluster up SCENARIO",
        )
    check_ended(record)
    return manifest


def read_manifest(record: RecordFolder) -> Manifest:
    """Return the manifest of a record.

    Its `run_id` is any text: check it (`is_run_id`) before it names a file. Raises `UsageError` for any other folder.
    """
    return read_manifest_and_keys(record)[0]


def read_manifest_and_keys(record: RecordFolder) -> tuple[Manifest, frozenset[str]]:
    """Return the manifest of a record, and the keys that the file has. Raises as `read_manifest` does."""
    path = record / MANIFEST
    again = f"copy the record again from where it was made, or remove {record}"
    if not is_folder(record.path):
        what = f"{'a file, and not a' if is_file(record.path) else 'no such'} run record"
        meant = Path("runs", record.path)
        next = f"name its folder: {shlex.quote(str(meant))}" if is_file(meant / MANIFEST) else list_records(record.path)
        no_record = NoRecord(what, where=str(record), allowed="a folder with a manifest.json", next=next)
        raise foreign_error_at(record.path, "a run record") or no_record
    if not os.path.lexists(path):
        for folder in (record.path, record / "runs"):
            if records := records_of(folder):
                newest = [shlex.quote(str(one)) for one in records[: -_NAMED_MAX - 1 : -1]]
                raise UsageError(
                    "a folder of records, and not a run record",
                    where=str(record),
                    allowed=", ".join(newest) + (f" and {more} more" if (more := len(records) - len(newest)) else ""),
                    next=f"ebbtide runs --runs {shlex.quote(str(folder))}",
                )
        raise NoRecord("not a run record: manifest.json is missing", where=str(record), next=list_records(record.path))
    if not is_going(record):
        check_contents(record)
    content = read_file(path, what=MANIFEST, bytes_max=_BYTES_MAX)
    try:
        head = decode_json(content, object)
    except msgspec.DecodeError as error:
        raise UsageError("manifest.json cannot be decoded", where=str(path), got=str(error), next=again) from None
    keys = head if isinstance(head, dict) else {}
    version = keys.get("record_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise UsageError(
            "manifest.json has no valid record_version",
            where=str(path),
            got=repr(version),
            allowed=f"1 to {RECORD_VERSION}",
            next=again,
        )
    if version > RECORD_VERSION:
        raise UsageError(
            "the record has a newer version than this Ebbtide can read",
            where=str(path),
            got=f"record_version {version}",
            allowed=f"up to {RECORD_VERSION}",
            next="judge it with the Ebbtide that made it, or with a newer Ebbtide",
        )
    try:
        manifest = msgspec.convert(head, Manifest)
    except msgspec.ValidationError as error:
        what = "manifest.json does not fit the record format"
        raise UsageError(what, where=str(path), got=str(error), next=again) from None
    partitions = sum(topic.partitions for topic in manifest.topics.values())
    if partitions > _PARTITIONS_MAX:
        raise UsageError(
            "manifest.json has more partitions than a record can hold",
            where=str(path),
            got=f"{partitions:,}",
            allowed=f"up to {_PARTITIONS_MAX:,}",
            next=again,
        )
    return manifest, frozenset(keys)
