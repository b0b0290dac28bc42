"""Finds what a record once had and now lacks.

The judge concludes nothing from half a table. Four sources say what must be there.
Any of them may be missing itself:

- SHA256SUMS lists every file that the run left, with its checksum.
- The manifest names the brokers and clients. Ebbtide gives each of them a file of its own in a
  table.
- evidence.json counts the rows of the tables that were made from raw/.
- scenario.toml and the table configs say what the manifest must say.

A record that was made elsewhere may lack any table: what none of the sources names is not a gap.

`ended_before_sending` says whether a run ended before a client sent a record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from packaging.version import InvalidVersion, Version

from analysis.evidence.remaking import TIMELINE
from analysis.evidence.report import EVIDENCE
from analysis.record.files import Missing, RecordFiles
from ebbtide.errors import UsageError
from ebbtide.journal.convert import has_journals
from ebbtide.record.clients import CLIENTS_DIR
from ebbtide.record.contents import is_of_record
from ebbtide.record.files import RAW_DIR, WITNESS_DIR
from ebbtide.record.manifest import ACKS, Manifest
from ebbtide.record.steps import STEPS
from ebbtide.record.sums import changed_files, files_below, files_of_run
from ebbtide.record.tables import TABLES
from ebbtide.record.verdict import Counts
from ebbtide.releases import first_with
from ebbtide.releases.builds import number_of
from ebbtide.scenario.internal_topics import INTERNAL_TOPICS
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.steps.admin import DeleteTopicStep
from ebbtide.scenario.steps.process import StartStep
from ebbtide.scenario.write import SCENARIO
from ebbtide.untrusted.files import is_file
from ebbtide.untrusted.parquet import ParquetSource, read_rows

OF_LOSSES = frozenset(
    {*TIMELINE, "sends", "polls", "watermarks", "replicas", "steps", "manifest", "scenario", "evidence"}
)
"""The parts in which losses, HW regressions and their causes are found."""

OF_PREDICTIONS = OF_LOSSES | {CLIENTS_DIR, "described", "commits", "copies", "wire"}
"""The parts of losses, and the parts that coverage facts are counted from.

A prediction speaks of both.
"""

_CHECKPOINT = "watermarks/checkpoint.parquet"
_KEYS = (
    "status",
    "torn_journal_bytes",
    "kafka",
    "features",
    "topology",
    "topics",
    "producers",
    "final_consumer",
    "final_offsets",
)
"""Keys of the manifest that Ebbtide always writes and that a verdict rests on."""
_NEWER_KEY = "ignored_properties"
"""Only versions that write all of `_KEYS` write this key of the manifest.

They also write a file for each client and broker.
"""


class Gap(msgspec.Struct, frozen=True):
    """A file, or an entry of a file, that is not as the run left it.

    `part` is a table or a file, by its name without the ending. `what` is the file, or its entry;
    `why` is a sentence.
    """

    part: str
    what: str
    why: str


def gaps_of(record: RecordFiles) -> tuple[Gap, ...]:
    """Return all gaps of a record, each once.

    Raises `UsageError` when SHA256SUMS is damaged.
    """
    found = [*_gaps_by_sums(record)]
    manifest, keys = record.manifest, record.manifest_keys
    if manifest.status == "complete" or "status" not in keys:
        is_newer = _NEWER_KEY in keys and "ebbtide" in manifest.clients
        found += _gaps_by_names(record, is_newer=is_newer)
        # A missing or changed file is the reason why its table has other rows.
        known = {one.part for one in found}
        found += [one for one in _gaps_by_counts(record) if one.part not in known]
        found += _gaps_by_timings(record)
        if is_newer:
            found += _gaps_by_reports(record)
            found += _gaps_by_keys(keys)
            found += _gaps_by_scenario(record)
            found += _gaps_by_configs(record)
            found += _gaps_by_upgrades(record)
    return tuple({one.what: one for one in reversed(found)}.values())[::-1]


def is_raw_whole(record: RecordFiles) -> bool:
    """Return whether raw/ holds exactly the files that the run left.

    Always true without SHA256SUMS.
    """
    sums = record.sums
    if sums is None:
        return True
    folder = record.folder
    raw = {name: digest for name, digest in sums.items() if name.startswith(f"{RAW_DIR}/")}
    is_same = raw.keys() == set(files_below(folder, RAW_DIR))
    return bool(raw) and is_same and not changed_files(folder, raw)


def is_evidence_whole(record: RecordFiles) -> bool:
    """Return whether evidence.json is as the run left it, as far as SHA256SUMS says."""
    own = {name: digest for name, digest in (record.sums or {}).items() if name == EVIDENCE}
    return not record.folder.missing(own) and not changed_files(record.folder, own)


def _gaps_by_sums(record: RecordFiles) -> Iterator[Gap]:
    """Check all files outside raw/, whose files are read only for a missing table."""
    sums = {name: digest for name, digest in (record.sums or {}).items() if not name.startswith(f"{RAW_DIR}/")}
    for name in record.folder.missing(sums):
        yield Gap(_part_of(name), name, f"{name} is missing, but the run left it (SHA256SUMS)")
    for name in changed_files(record.folder, sums, record.sources()):
        yield Gap(_part_of(name), name, f"{name} is not as the run left it (SHA256SUMS)")
    if sums:
        there = {
            name for name in files_of_run(record.folder) if is_of_record(name) and not name.startswith(f"{RAW_DIR}/")
        }
        there |= {record.folder.name_of(file.path) for table in TABLES for file in record.files(table)}
        for name in sorted(there - sums.keys()):
            yield Gap(_part_of(name), name, f"{name} is not one of the files that the run left (SHA256SUMS)")


def _part_of(name: str) -> str:
    return Path(name).parts[0].partition(".")[0]


def _gaps_by_names(record: RecordFiles, *, is_newer: bool) -> Iterator[Gap]:
    """Check that the tables have the files that the manifest implies.

    Tables with files of other names are not compared with the manifest. Of a record that is not
    newer, only sends is checked, and only where some of its files are there.
    """
    for part, names in _files_by_part(record.manifest).items():
        missing = record.folder.missing(names)
        is_begun = len(missing) < len(names)
        if missing and ((is_newer and not record.has(part)) or (is_begun and (is_newer or part == "sends"))):
            for name in missing:
                yield Gap(part, name, f"{name} is missing, but the manifest says that it was there")


def _files_by_part(manifest: Manifest) -> dict[str, list[str]]:
    """Return the files that Ebbtide writes for a complete run, by part."""
    producers = [f"producer-{name}" for name in manifest.producers]
    consumers = [name for name in manifest.clients if name.startswith("consumer-")]
    if manifest.final_consumer is not None:
        consumers.append(f"consumer-{manifest.final_consumer}")
    files = {
        "sends": [f"sends/{name}.parquet" for name in producers],
        "polls": [f"polls/{name}.parquet" for name in consumers],
        CLIENTS_DIR: [f"{CLIENTS_DIR}/{name}.jsonl" for name in (*producers, *consumers)],
        "replicas": [f"replicas/broker-{broker}.parquet" for broker in manifest.topology.brokers],
        "watermarks": ["watermarks/sampler.parquet", _CHECKPOINT],
        **{table: [f"{table}.parquet"] for table in TIMELINE},
        "evidence": [EVIDENCE],
        "steps": [STEPS],
        "scenario": [SCENARIO],
    }
    if manifest.watch is not None:
        # Not every replica of a watched cluster gives its log, and nobody may read the metadata log.
        for part in ("replicas", *(TIMELINE if manifest.watch.why_log_ends is not None else ())):
            del files[part]
    try:
        if Version(manifest.kafka) >= first_with.DESCRIBE_TOPIC_PARTITIONS:
            files["described"] = ["described/describer.parquet"]
    except InvalidVersion:
        pass
    return files


def _gaps_by_counts(record: RecordFiles) -> Iterator[Gap]:
    """Compare the rows of tables made from raw/ with evidence.json's counts."""
    for name, part, files, rows in _counted_tables(record):
        if files and (found := _rows(files)) not in (None, rows):
            yield Gap(part, name, f"{name}: {found:,} of the {rows:,} rows that were made are left (evidence.json)")


def _counted_tables(record: RecordFiles) -> Iterator[tuple[str, str, Sequence[ParquetSource], int]]:
    """Yield what evidence.json counts: name, part, files, and number of rows."""
    timeline = record.reports.timeline
    for table, rows in ((timeline.rows if timeline is not None else None) or {}).items():
        if table in TIMELINE:
            yield f"{table}.parquet", table, record.files(table), rows
    replicas = record.reports.replicas
    if replicas is not None:
        rows = sum(log.records for log in replicas.logs)
        yield "replicas", "replicas", record.files("replicas"), rows
    checkpoints = record.reports.checkpoints
    if checkpoints is not None and record.folder.has(_CHECKPOINT):
        files = [file for file in record.files("watermarks") if record.folder.name_of(file.path) == _CHECKPOINT]
        yield _CHECKPOINT, "watermarks", files, checkpoints.rows


def _rows(files: Sequence[ParquetSource]) -> int | None:
    """Return how many rows some files have.

    None where a file cannot be read, which is an error of its own.
    """
    try:
        return sum(int(file.footer.num_rows) for file in files if is_file(file.path))
    except UsageError:
        return None


def _gaps_by_reports(record: RecordFiles) -> Iterator[Gap]:
    """Check that evidence.json has all reports, which Ebbtide always writes.

    A report that cannot be read counts as missing.
    """
    if not record.folder.has(EVIDENCE):
        return
    reports = {
        "timeline": record.reports.timeline,
        "replicas": record.reports.replicas,
        "checkpoints": record.reports.checkpoints,
    }
    for part, report in reports.items():
        if report is None:
            yield Gap("evidence", f"{EVIDENCE}: {part}", f"{EVIDENCE} has no report of the {part}")


def _gaps_by_timings(record: RecordFiles) -> Iterator[Gap]:
    """Check that a witness left what it read, or why it could not read."""
    is_there = record.folder.has_folder(WITNESS_DIR) and any((record.folder / WITNESS_DIR).iterdir())
    if WITNESS_DIR in record.manifest.timings_s and not is_there:
        why = f"{WITNESS_DIR}/ is missing, but the manifest says that the run had a witness"
        yield Gap(WITNESS_DIR, WITNESS_DIR, why)


def _gaps_by_keys(keys: frozenset[str]) -> Iterator[Gap]:
    for key in _KEYS:
        if key not in keys:
            yield Gap("manifest", key, f"manifest.json has no {key}, which Ebbtide always writes")


def _gaps_by_scenario(record: RecordFiles) -> Iterator[Gap]:
    """Compare the manifest with the scenario.

    An unreadable scenario is no source; that makes the run inconclusive for a reason of its own.
    """
    scenario, manifest = record.scenario, record.manifest
    if isinstance(scenario, Missing):
        return
    for what, there, asked in _manifest_and_scenario(scenario, manifest):
        if there != asked:
            yield Gap("manifest", what, f"manifest.json and scenario.toml differ in {what}")
    for one in scenario.consumers:
        for name in (f"commits/commits-{one.id}.parquet", "commits/commits-served.parquet"):
            if one.commit_every is not None and not record.folder.has(name):
                yield Gap("commits", name, f"{name} is missing, but scenario.toml says that consumer {one.id} commits")
    for copier in scenario.producers:
        for table, name in (("copies", f"copies-{copier.id}"), ("commits", "commits-served")):
            if copier.copies is not None and not record.folder.has(f"{table}/{name}.parquet"):
                what = f"{table}/{name}.parquet"
                yield Gap(table, what, f"{what} is missing, but scenario.toml says that producer {copier.id} copies")
    if manifest.final_consumer is not None:
        deleted = {step.topic for step in scenario.steps if isinstance(step, DeleteTopicStep)}
        for topic, setup in scenario.topics.items():
            for partition in range(setup.partitions):
                if topic not in {*INTERNAL_TOPICS, *deleted} and f"{topic}-{partition}" not in manifest.final_offsets:
                    what = f"final offsets of {topic}-{partition}"
                    yield Gap("manifest", what, f"manifest.json has no {what}")


def _manifest_and_scenario(scenario: Scenario, manifest: Manifest) -> Iterator[tuple[str, object, object]]:
    yield "the Kafka release", manifest.kafka, scenario.kafka[0]
    cluster, nodes = scenario.cluster, manifest.topology
    if manifest.watch is None:
        yield "the nodes", (len(nodes.controllers), len(nodes.brokers)), (cluster.controllers, cluster.brokers)
    yield "the first release", manifest.release_path[0], cluster.formed_on or scenario.kafka[0]
    yield (
        "the topics",
        {name: (one.partitions, one.replication_factor, one.min_isr) for name, one in manifest.topics.items()},
        {name: (one.partitions, one.replication_factor, one.min_isr) for name, one in scenario.topics.items()},
    )
    yield (
        "the producers",
        {name: (one.acks, one.idempotent, one.transactional) for name, one in manifest.producers.items()},
        {
            str(one.id): (ACKS[one.acks], one.idempotent or one.transactional, one.transactional)
            for one in scenario.producers
        },
    )
    yield (
        "the consumers",
        {name for name in manifest.clients if name.startswith("consumer-")},
        {f"consumer-{one.id}" for one in scenario.consumers},
    )


def _gaps_by_upgrades(record: RecordFiles) -> Iterator[Gap]:
    """Check that the manifest has the releases that steps moved nodes to."""
    try:
        steps = record.split_steps or []
    except UsageError:
        return  # an error of its own
    for step in steps:
        to = step.figures(StartStep.Proof).to
        for node in step.nodes if to is not None else ():
            if number_of(str(to)) not in [one.kafka for one in record.manifest.releases.get(str(node), ())]:
                what = f"release {to} of node {node}"
                yield Gap("manifest", what, f"manifest.json has no {what}, which steps.jsonl says that it ran")


def _gaps_by_configs(record: RecordFiles) -> Iterator[Gap]:
    """Check that the manifest has the feature levels that the metadata log set last."""
    if len(files := record.files("configs")) != 1:
        return
    try:
        rows = read_rows(files, "configs", columns=["resource", "value"]).to_pylist()
    except UsageError:
        return
    # Rows are in the order of the log. A null deletes a level.
    levels = {
        str(row["resource"]).removeprefix("feature:"): row["value"]
        for row in rows
        if str(row["resource"]).startswith("feature:")
    }
    said = {name: str(level) for name, level in record.manifest.features.items()}
    differing = [name for name, level in levels.items() if said.get(name) != level]
    if differing:
        yield Gap(
            "manifest",
            "feature levels",
            f"manifest.json and the metadata log (configs) differ in the level of {', '.join(differing)}",
        )


_TABLES = ("sends", "polls", "replicas")
"""The tables that have a row for a record that a client sent."""


def ended_before_sending(record: RecordFiles, counts: Counts) -> bool:
    """Whether the run did not complete, and nothing was sent before.

    `counts` are those of its judgement. A record that lost its tables has no rows either: then the counts or SHA256SUMS
    may have what was there. A complete run without rows is such a copy too, so nothing can be said of its records.
    """
    if record.manifest.status == "complete" or counts.sends or counts.polls:
        return False
    if has_journals(record.folder):
        return False
    left = (name for name in record.sums or {} if Path(name).parts[0].partition(".")[0] in _TABLES)
    if record.folder.missing(left):
        return False
    return not any(file.footer.num_rows for table in _TABLES for file in record.files(table))
