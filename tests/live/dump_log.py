"""Compares Ebbtide's decoders with Kafka's own DumpLogSegments, field by field, on any folder of a log.

    assert_segments_agree(record / "raw/broker-1/t-0", dump_segments("3.9.1", record / "raw/broker-1/t-0"))
    assert_metadata_agrees("3.9.1", record / "raw/controller-100/__cluster_metadata-0")

The tool's text is parsed into batches and records; every field that it prints must equal what Ebbtide
decoded, and both must have found the same batches and records. The release given runs the tool: it must be
no older than the one that wrote the log. The tool ships in the release's core jar up to 4.1, later in
kafka-tools, which is fetched with Maven on first use.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import zipfile
from base64 import b64encode
from functools import cache
from importlib import resources
from pathlib import Path

import msgspec

from cluster.jars.releases import jars_of
from ebbtide.java import require_java
from ebbtide.kraft.records import MetadataRecord, decode_batch
from ebbtide.kraft.schema import Value
from ebbtide.logs.batches import Batch, LogRecord
from ebbtide.logs.codecs import Codec
from ebbtide.logs.scan import Damage, scan_file
from ebbtide.places import cache_dir

_LINE = re.compile(r"\n(?=baseOffset: |\| offset: |Dumping |\Z)")
_BATCH_FIELD = re.compile(r"(\w+): (\S+)")
_RECORD = re.compile(
    r"\| offset: (?P<offset>\d+) (?P<clock>CreateTime|LogAppendTime): (?P<time>-?\d+) keySize: (?P<key_size>-?\d+) "
    r"valueSize: (?P<value_size>-?\d+) sequence: (?P<sequence>-?\d+) headerKeys: \[(?P<headers>.*?)\](?P<rest>.*)",
    re.DOTALL,
)
_DELETE_HORIZON = 0x40
_SEQUENCES = 1 << 31


class DumpedBatch(msgspec.Struct, frozen=True, kw_only=True):
    """One batch as the tool printed it: the fields of its line, and the lines of its records."""

    fields: dict[str, str]
    records: list[dict[str, str]]


Dump = dict[Path, list[DumpedBatch]]
"""The batches of each file."""


def dump_segments(version: str, *partition_folders: Path) -> Dump:
    """Dump every segment of some partitions, by one run of the tool."""
    files = [path for folder in partition_folders for path in sorted(folder.glob("*.log"))]
    return dump(version, files, "--print-data-log", "--deep-iteration")


def assert_segments_agree(partition_folder: Path, dumped: Dump) -> int:
    """Compare every segment of a partition with its dump; returns the number of records compared."""
    files = sorted(partition_folder.glob("*.log"))
    return sum(_compare_file(path, dumped[path], _data_record) for path in files)


def assert_metadata_agrees(version: str, metadata_folder: Path) -> int:
    """Compare every segment and snapshot of a metadata log; returns the number of records compared."""
    files = sorted(metadata_folder.glob("*.log")) + sorted(metadata_folder.glob("*.checkpoint"))
    dumped = dump(version, files, "--cluster-metadata-decoder")
    return sum(_compare_file(path, dumped[path], _metadata_record) for path in files)


def dump(version: str, files: list[Path], *arguments: str) -> Dump:
    """Run the tool of a fetched release once over `files`."""
    name, class_path = _tool(version)
    java = [str(require_java().executable), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8"]
    command = [*java, "-cp", class_path, name, *arguments, "--files", ",".join(map(str, files))]
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return _parse(done.stdout.decode())


def _parse(text: str) -> Dump:
    found: Dump = {}
    batches: list[DumpedBatch] = []
    for line in _LINE.split(text):
        if line.startswith("Dumping "):
            batches = found[Path(line.splitlines()[0].removeprefix("Dumping "))] = []
        elif line.startswith("baseOffset: "):
            batches.append(DumpedBatch(fields=dict(_BATCH_FIELD.findall(line)), records=[]))
        elif match := _RECORD.fullmatch(line):
            batches[-1].records.append(match.groupdict())
        else:
            assert not line.startswith("|"), f"the tool printed a record in an unknown form: {line!r}"
    return found


def _compare_file(path: Path, dumped: list[DumpedBatch], compare_record) -> int:  # type: ignore[no-untyped-def]
    ours = list(scan_file(path))
    assert not [item for item in ours if isinstance(item, Damage)], f"{path}: {ours[-1]}"
    assert len(ours) == len(dumped), f"{path}: {len(ours)} batches, the tool found {len(dumped)}"
    count = 0
    for batch, theirs in zip(ours, dumped, strict=True):
        assert isinstance(batch, Batch)
        expected = _batch_fields(batch)
        assert theirs.fields.items() >= {"isvalid": "true", "magic": "2"}.items()
        differing = {key: (expected.get(key), value) for key, value in theirs.fields.items() if expected[key] != value}
        assert not differing, f"{path} batch {batch.base_offset}, ours and theirs: {differing}"
        records = list(batch.records())
        assert len(records) == len(theirs.records)
        for index, (record, line) in enumerate(zip(records, theirs.records, strict=True)):
            _compare_frame(batch, record, line)
            compare_record(batch, record, index, line["rest"])
        count += len(records)
    return count


def _batch_fields(batch: Batch) -> dict[str, str]:
    width = batch.last_offset - batch.base_offset
    last_sequence = -1 if batch.base_sequence < 0 else (batch.base_sequence + width) % _SEQUENCES
    horizon = f"OptionalLong[{batch.base_timestamp_ms}]" if batch.attributes & _DELETE_HORIZON else "OptionalLong.empty"
    return {
        "baseOffset": str(batch.base_offset),
        "lastOffset": str(batch.last_offset),
        "count": str(batch.count),
        "baseSequence": str(batch.base_sequence),
        "lastSequence": str(last_sequence),
        "producerId": str(batch.producer_id),
        "producerEpoch": str(batch.producer_epoch),
        "partitionLeaderEpoch": str(batch.leader_epoch),
        "isTransactional": str(batch.transactional).lower(),
        "isControl": str(batch.control).lower(),
        "deleteHorizonMs": horizon,
        "position": str(batch.position),
        _clock(batch): str(batch.max_timestamp_ms),
        "size": str(batch.size),
        "magic": "2",
        "compresscodec": Codec(batch.codec).name.lower(),
        "crc": str(batch.crc),
        "isvalid": str(batch.crc_matches()).lower(),
    }


def _clock(batch: Batch) -> str:
    return "LogAppendTime" if batch.log_append_time else "CreateTime"


def _compare_frame(batch: Batch, record: LogRecord, line: dict[str, str]) -> None:
    ours = {
        "offset": str(record.offset),
        "clock": _clock(batch),
        "time": str(record.timestamp_ms),
        "key_size": str(-1 if record.key is None else len(record.key)),
        "value_size": str(-1 if record.value is None else len(record.value)),
        "sequence": str(record.sequence),
        "headers": ",".join(key for key, _ in record.headers),
        "rest": line["rest"],
    }
    assert ours == line


def _data_record(batch: Batch, record: LogRecord, index: int, rest: str) -> None:
    if batch.control:
        assert record.key is not None
        assert record.value is not None
        kind = {0: "ABORT", 1: "COMMIT"}[int.from_bytes(record.key[2:4], "big")]
        epoch = int.from_bytes(record.value[2:6], "big")
        assert rest == f" endTxnMarker: {kind} coordinatorEpoch: {epoch}"
        return
    key = "" if record.key is None else f" key: {record.key.decode(errors='replace')}"
    value = "" if record.value is None else f" payload: {record.value.decode(errors='replace')}"
    assert rest == key + value


def _metadata_record(batch: Batch, record: LogRecord, index: int, rest: str) -> None:
    ours = decode_batch(batch)[index]
    assert ours.undecoded is None, ours
    if not batch.control:
        theirs = json.loads(rest.removeprefix(" payload: "))
        assert theirs == {"type": _type_name(ours.name), "version": ours.version, "data": as_printed(ours)}
    elif "{" in rest:
        label, _, text = rest.strip().partition("{")
        assert label.rstrip(": ").replace("KRaftVoters", "Voters") == re.sub("(Message|Record)$", "", ours.name)
        assert json.loads("{" + text) == as_printed(ours)
    else:
        assert rest == " controlType: LEADER_CHANGE(2)"
        assert ours.name == "LeaderChangeMessage"


def _type_name(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()


def as_printed(record: MetadataRecord) -> Value:
    """The record's fields in Kafka's JSON: without fields of other versions and tagged ones at their default."""
    definition = definitions()[record.name]
    structs = {each["name"]: each["fields"] for each in definition.get("commonStructs", [])}
    return _printed_fields(dict(record.fields), definition["fields"], structs, record.version)


def _printed_fields(values, fields, structs, version):  # type: ignore[no-untyped-def]
    printed = {}
    for field in fields:
        name = field["name"][0].lower() + field["name"][1:]
        value, kind = values[name], field["type"].removeprefix("[]")
        if not _has_version(field["versions"], version):
            continue
        if _has_version(field.get("taggedVersions", "none"), version) and value == _default(field):
            continue
        inner = field.get("fields") or structs.get(kind)
        if inner:
            each = [
                _printed_fields(one, inner, structs, version) for one in (value if isinstance(value, list) else [value])
            ]
            value = each if isinstance(value, list) else each[0]
        printed[name] = b64encode(value).decode() if isinstance(value, bytes) else value
    return printed


def _has_version(versions: str, version: int) -> bool:
    return versions != "none" and version >= int(re.match(r"\d+", versions)[0])  # type: ignore[index]


def _default(field):  # type: ignore[no-untyped-def]
    given = field.get("default")
    if given in (None, "null"):
        return None if given == "null" else [] if field["type"].startswith("[]") else 0
    return int(given)


@cache
def definitions():  # type: ignore[no-untyped-def]
    """The bundled message definitions by name."""
    folder = resources.files("ebbtide.kraft") / "schemas"
    loaded = [parse_definition(file.read_text()) for file in folder.iterdir() if file.name.endswith(".json")]
    return {each["name"]: each for each in loaded}


def parse_definition(text: str):  # type: ignore[no-untyped-def]
    """One of Apache's definition files: JSON with comment lines."""
    return json.loads(re.sub(r"(?m)^\s*//.*$", "", text))


def encoding(definition, version: int) -> list[tuple[object, ...]]:  # type: ignore[no-untyped-def]
    """What decides the bytes of a message at a version: its plain fields in order, then its tagged ones."""
    return _encoding(definition["fields"], version)


def _encoding(fields, version: int) -> list[tuple[object, ...]]:  # type: ignore[no-untyped-def]
    found = []
    for field in fields:
        if _has_version(field["versions"], version):
            tag = int(field["tag"]) if _has_version(field.get("taggedVersions", "none"), version) else None
            nullable = _has_version(field.get("nullableVersions", "none"), version)
            inner = _encoding(field["fields"], version) if "fields" in field else field["type"]
            found.append((tag is not None, tag, field["type"].startswith("[]"), inner, nullable))
    return sorted(found, key=lambda each: (each[0], each[1] or 0))


@cache
def _tool(version: str) -> tuple[str, str]:
    """The tool's class name in this release, and the class path to run it with."""
    jars = jars_of(version)
    for name in ("kafka.tools.DumpLogSegments", "org.apache.kafka.tools.DumpLogSegments"):
        entry = name.replace(".", "/") + ".class"
        if any(entry in zipfile.ZipFile(jar).namelist() for jar in jars if jar.name.startswith("kafka")):
            return name, os.pathsep.join(map(str, jars))
    return "org.apache.kafka.tools.DumpLogSegments", os.pathsep.join(map(str, [*jars, _tools_jar(version)]))


def _tools_jar(version: str) -> Path:
    folder = cache_dir() / "test-tools"
    jar = folder / f"kafka-tools-{version}.jar"
    if not jar.exists():
        maven = shutil.which("mvn")
        assert maven is not None, "Maven is needed to fetch kafka-tools"
        goal = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
        arguments = [f"-Dartifact=org.apache.kafka:kafka-tools:{version}", f"-DoutputDirectory={folder}"]
        command = [maven, *shlex.split(os.environ.get("MAVEN_ARGS", "")), "-q", "-B", goal, *arguments]
        subprocess.run(command, check=True, capture_output=True)
    return jar
