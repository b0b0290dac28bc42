"""What a record says that it must hold: a missing or changed part is a gap, whichever source names it."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pyarrow.parquet as pq
import pytest
from damage import combine, copy_of, damages, removals
from quick import quick_first
from real_records import NAMES, unpack_record
from records import as_record

from analysis.evidence.remaking import TIMELINE
from analysis.evidence.report import EVIDENCE
from analysis.judging.one_record import prepare_record
from analysis.record.whole import is_raw_whole
from ebbtide.errors import UsageError
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import MANIFEST, read_manifest
from ebbtide.record.steps import STEPS
from ebbtide.record.sums import SUMS, read_sums, update_sums, write_sums
from ebbtide.scenario.write import SCENARIO


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """A run as it is left now, SHA256SUMS and all."""
    found = unpack_record("last-replica-standing-4.4.0", tmp_path)
    write_sums(RecordFolder(found))
    return found


def gap_reasons(record: Path) -> list[str]:
    return [one.why for one in as_record(record).gaps]


def remove_sums(record: Path) -> Path:
    (record / SUMS).unlink()
    return record


def change_manifest(record: Path, change: Callable[[dict[str, object]], object]) -> None:
    manifest = json.loads((record / MANIFEST).read_text())
    change(manifest)
    (record / MANIFEST).write_text(json.dumps(manifest))


def test_a_whole_record_has_no_gap_with_checksums_or_without(record: Path) -> None:
    assert gap_reasons(record) == []
    assert gap_reasons(remove_sums(record)) == []


def test_sha256sum_reads_the_checksums(record: Path) -> None:
    check = ["sha256sum", "--check", "--quiet", SUMS]
    assert subprocess.run(check, cwd=record, check=False).returncode == 0
    (record / "steps.jsonl").write_text("")
    assert subprocess.run(check, cwd=record, check=False, capture_output=True).returncode == 1


@pytest.mark.parametrize(
    "name",
    [
        "replicas/broker-3.parquet",
        "polls/consumer-1.parquet",
        "sends/producer-1.parquet",
        "watermarks/checkpoint.parquet",
        "watermarks/sampler.parquet",
        "described/describer.parquet",
        "clients/consumer-1.jsonl",
        "partitions.parquet",
        "brokers.parquet",
        "configs.parquet",
        "steps.jsonl",
        "evidence.json",
    ],
)
@pytest.mark.parametrize("with_sums", [True, False])
def test_a_missing_file_is_a_gap(record: Path, name: str, with_sums: bool) -> None:
    if not with_sums:
        remove_sums(record)
    (record / name).unlink()
    assert any(name in why or name.removesuffix(".parquet") in why for why in gap_reasons(record))


def test_a_changed_byte_is_a_gap_of_its_table(record: Path) -> None:
    path = record / "polls" / "consumer-1.parquet"
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    assert [one.part for one in as_record(record).gaps] == ["polls"]
    assert gap_reasons(record) == ["polls/consumer-1.parquet is not as the run left it (SHA256SUMS)"]


@pytest.mark.parametrize("places", quick_first((8, 25)))
@pytest.mark.parametrize("name", NAMES)
def test_every_damage_to_what_is_judged_is_seen_at_places_of_each_kind(name: str, places: int, tmp_path: Path) -> None:
    record = unpack_record(name, tmp_path)
    write_sums(RecordFolder(record))
    for damage in damages(record, seed=19, count=places):
        path = record / damage.file
        content = path.read_bytes()
        damage.apply(record)
        # Zeros may be written where zeros were; and checksums of what is not judged do not matter.
        is_judged = not damage.file.startswith(("raw/", "logs/")) and path.read_bytes() != content
        try:
            is_seen = bool(as_record(record).gaps)
        except UsageError:
            is_seen = True
        assert is_seen == is_judged or damage.file == SUMS, damage.name
        path.write_bytes(content)


@pytest.mark.parametrize("pairs", quick_first((10, 30)))
def test_two_damages_at_once_do_not_hide_each_other(record: Path, tmp_path: Path, pairs: int) -> None:
    not_judged = ("raw/", "logs/", SUMS)
    found = [one for one in [*removals(record), *damages(record, 19, 20)] if not one.name.startswith(not_judged)]
    rolled = random.Random(19)
    for number in range(pairs):
        damage = combine(*rolled.sample(found, 2))
        copy = copy_of(record, tmp_path / str(number), damage)
        with contextlib.suppress(UsageError):
            prepare_record(RecordFolder(copy))
            assert gap_reasons(copy), damage.name
        shutil.rmtree(copy)


def test_a_file_that_the_run_did_not_write_is_a_gap_of_its_table(record: Path) -> None:
    shutil.copy(record / "polls" / "consumer-1.parquet", record / "polls" / "more.parquet")
    assert gap_reasons(record) == ["polls/more.parquet is not one of the files that the run left (SHA256SUMS)"]


@pytest.mark.parametrize(
    "name",
    ["wire.jsonl", "quorum.jsonl", "clock.jsonl", "clients/producer-9.jsonl", "witness/x.parquet", "commits.parquet"],
)
def test_any_added_file_that_a_reader_would_look_for_is_a_gap(record: Path, name: str) -> None:
    added = record / name
    added.unlink(missing_ok=True)
    update_sums(RecordFolder(record), name.__eq__)
    added.parent.mkdir(exist_ok=True)
    added.write_text("{}")
    assert f"{name} is not one of the files that the run left (SHA256SUMS)" in gap_reasons(record)
    write_sums(RecordFolder(record))
    assert not [why for why in gap_reasons(record) if name in why]


def test_a_file_that_no_reader_looks_for_is_none(record: Path) -> None:
    (record / "notes.txt").write_text("mine")
    (record / "raw" / "mine").write_text("mine")
    assert gap_reasons(record) == []


@pytest.mark.parametrize(
    "key", ["status", "torn_journal_bytes", "producers", "topics", "final_offsets", "features", "topology"]
)
def test_a_manifest_without_a_key_is_a_gap(record: Path, key: str) -> None:
    change_manifest(remove_sums(record), lambda manifest: manifest.pop(key))
    assert any(key in why for why in gap_reasons(record))


@pytest.mark.parametrize(
    ("said", "change"),
    [
        ("the producers", lambda manifest: manifest["producers"].pop("1")),
        ("the topics", lambda manifest: manifest["topics"].pop("t")),
        ("the nodes", lambda manifest: manifest["topology"]["brokers"].pop()),
        ("the consumers", lambda manifest: manifest["clients"].pop("consumer-1")),
        ("final offsets of t-0", lambda manifest: manifest["final_offsets"].pop("t-0")),
        ("eligible.leader.replicas.version", lambda m: m["features"].pop("eligible.leader.replicas.version")),
        ("metadata.version", lambda manifest: manifest["features"].update({"metadata.version": 21})),
        ("the run had a witness", lambda manifest: manifest["timings_s"].update(witness=1.5)),
    ],
)
def test_a_manifest_that_differs_from_the_scenario_or_the_record_is_a_gap(
    record: Path, said: str, change: Callable[[dict[str, object]], object]
) -> None:
    change_manifest(remove_sums(record), change)
    assert any(said in why for why in gap_reasons(record))


def upgraded(record: Path, manifest_has: str) -> Path:
    """The record of a run in which a step moved broker 1 to 4.4.1."""
    (record / SUMS).unlink(missing_ok=True)
    kafka = read_manifest(RecordFolder(record)).kafka
    ran = [{"kafka": kafka, "started_ns": 1}, {"kafka": manifest_has, "started_ns": 2}]
    change_manifest(record, lambda manifest: manifest.update(releases={"1": ran}))
    part = {"step": "start", "nodes": [1], "fired_ns": 2, "effect_ns": 3, "proof": {"from": kafka, "to": "4.4.1"}}
    step = {"index": 0, "step": "upgrade", "nodes": [1], "fired_ns": 1, "effect_ns": 3, "proof": {"parts": [part]}}
    (record / STEPS).write_text(json.dumps(step) + "\n")
    return record


def test_a_release_that_a_step_moved_a_node_to_and_the_manifest_lacks_is_a_gap(record: Path) -> None:
    said = "manifest.json has no release 4.4.1 of node 1, which steps.jsonl says that it ran"
    assert gap_reasons(upgraded(record, "4.4.1")) == []
    assert gap_reasons(upgraded(record, "4.4.2")) == [said]


def test_a_cluster_that_was_formed_on_another_release_than_the_manifest_says_is_a_gap(record: Path) -> None:
    scenario = remove_sums(record) / SCENARIO
    scenario.write_text(scenario.read_text().replace("[cluster]\n", '[cluster]\nformed_on = "3.9.1"\n'))
    assert gap_reasons(record) == ["manifest.json and scenario.toml differ in the first release"]


def test_of_a_table_in_files_of_other_names_nothing_is_concluded(record: Path) -> None:
    remove_sums(record)
    change_manifest(record, lambda manifest: manifest.pop("ignored_properties"))
    (record / "polls" / "consumer-1.parquet").unlink()
    for path in sorted((record / "polls").iterdir()):
        path.rename(path.with_name(path.name.replace("consumer", "part")))
    assert gap_reasons(record) == []


def test_damaged_checksums_are_one_clear_error(record: Path) -> None:
    content = (record / SUMS).read_bytes()
    (record / SUMS).write_bytes(content[: len(content) // 2])
    with pytest.raises(UsageError, match="SHA256SUMS is damaged"):
        _ = as_record(record).gaps


def test_replicas_that_are_missing_as_a_whole_are_made_again_and_summed_anew(record: Path) -> None:
    shutil.rmtree(record / "replicas")
    prepare_record(RecordFolder(record))
    assert len(RecordFolder(record).files("replicas")) == 3
    assert gap_reasons(record) == []


def test_one_replica_that_is_missing_stays_a_gap(record: Path) -> None:
    (record / "replicas" / "broker-3.parquet").unlink()
    prepare_record(RecordFolder(record))
    assert not (record / "replicas" / "broker-3.parquet").exists()
    assert len(gap_reasons(record)) == 1


def test_nothing_is_made_again_from_a_raw_folder_that_has_changed(record: Path) -> None:
    shutil.rmtree(record / "replicas")
    shutil.rmtree(record / "raw" / "broker-3")
    assert not is_raw_whole(as_record(record))
    prepare_record(RecordFolder(record))
    assert not RecordFolder(record).files("replicas")
    assert len(gap_reasons(record)) == 3


def test_only_new_files_are_summed_anew(record: Path) -> None:
    before = read_sums(RecordFolder(record))
    assert before is not None
    (record / "steps.jsonl").write_text("")
    (record / "brokers.parquet").unlink()
    update_sums(RecordFolder(record), lambda name: name == "brokers.parquet")
    after = read_sums(RecordFolder(record))
    assert after is not None
    assert after["steps.jsonl"] == before["steps.jsonl"]
    assert before.keys() - after.keys() == {"brokers.parquet"}


def recompress_tables(record: Path) -> Path:
    """Tables of other bytes than a remake writes, as an older version may have left them."""
    for table in ("partitions", "brokers", "configs", "replicas", "watermarks"):
        for path in RecordFolder(record).files(table):
            pq.write_table(pq.read_table(path), path, compression="none")
    write_sums(RecordFolder(record))
    return record


def interrupt(record: Path, at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin to analyze the record, and press Ctrl-C at a function that makes tables."""
    with monkeypatch.context() as patched:
        patched.setattr(at, Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            prepare_record(RecordFolder(record))


@pytest.mark.parametrize("stopped_in", ["write_timeline", "write_replicas", "write_checkpoints", "update_sums"])
def test_a_remake_that_was_interrupted_is_finished_by_the_next_analysis(
    record: Path, stopped_in: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recompress_tables(record)
    shutil.rmtree(record / "replicas")
    for table in TIMELINE:
        (record / f"{table}.parquet").unlink()
    where = "analysis.judging.one_record" if stopped_in == "update_sums" else "analysis.evidence.collect"
    interrupt(record, f"{where}.{stopped_in}", monkeypatch)
    prepare_record(RecordFolder(record))
    assert gap_reasons(record) == []
    sums = read_sums(RecordFolder(record))
    assert sums is not None
    assert {"partitions.parquet", "replicas/broker-3.parquet", "evidence.json"} <= sums.keys()


def test_an_interrupted_remake_leaves_the_tables_of_the_other_part_as_they_are(
    record: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recompress_tables(record)
    shutil.rmtree(record / "replicas")
    interrupt(record, "analysis.judging.one_record.update_sums", monkeypatch)
    before = (record / "partitions.parquet").read_bytes()
    prepare_record(RecordFolder(record))
    assert gap_reasons(record) == []
    assert (record / "partitions.parquet").read_bytes() == before


def test_no_part_is_made_again_beside_a_damaged_report_of_the_other(record: Path) -> None:
    for table in TIMELINE:
        (record / f"{table}.parquet").unlink()
    (record / EVIDENCE).write_text((record / EVIDENCE).read_text().replace('"records"', '"recordz"', 1))
    prepare_record(RecordFolder(record))
    assert not RecordFolder(record).files("partitions")
    assert any(EVIDENCE in why for why in gap_reasons(record))


def test_all_that_is_made_of_raw_is_made_again_with_its_report(record: Path) -> None:
    shutil.rmtree(record / "replicas")
    for name in (*(f"{table}.parquet" for table in TIMELINE), EVIDENCE, "watermarks/checkpoint.parquet"):
        (record / name).unlink()
    prepare_record(RecordFolder(record))
    assert gap_reasons(record) == []


def cut_short(path: Path) -> None:
    rows = pq.read_table(path)
    pq.write_table(rows.slice(0, len(rows) - 1), path)


@pytest.mark.parametrize(
    "name", ["partitions.parquet", "configs.parquet", "replicas/broker-2.parquet", "watermarks/checkpoint.parquet"]
)
def test_a_table_with_fewer_rows_than_were_made_is_a_gap(record: Path, name: str) -> None:
    cut_short(remove_sums(record) / name)
    (why,) = gap_reasons(record)
    assert "rows that were made are left (evidence.json)" in why


@pytest.mark.parametrize("part", ["timeline", "replicas", "checkpoints"])
def test_a_report_that_is_missing_is_a_gap(record: Path, part: str) -> None:
    evidence = json.loads((remove_sums(record) / EVIDENCE).read_text())
    del evidence[part]
    (record / EVIDENCE).write_text(json.dumps(evidence))
    assert gap_reasons(record) == [f"evidence.json has no report of the {part}"]


@pytest.mark.parametrize("name", ["part-0.parquet", "problem.txt"])
def test_a_witness_that_left_something_is_no_gap(record: Path, name: str) -> None:
    change_manifest(remove_sums(record), lambda manifest: manifest["timings_s"].update(witness=1.5))  # type: ignore[attr-defined]
    (record / "witness").mkdir()
    assert gap_reasons(record) == ["witness/ is missing, but the manifest says that the run had a witness"]
    (record / "witness" / name).write_text("")
    assert gap_reasons(record) == []


@pytest.mark.parametrize("name", ["raw/broker-3/t-0/00000000000000099999.log", "raw/broker-9/meta.properties"])
def test_a_raw_folder_with_an_added_file_is_not_whole(record: Path, name: str) -> None:
    assert is_raw_whole(as_record(record))
    (record / name).parent.mkdir(exist_ok=True)
    (record / name).write_text("")
    assert not is_raw_whole(as_record(record))


def test_a_raw_folder_that_the_run_did_not_leave_is_not_whole(record: Path) -> None:
    (record / "raw").rename(record / "away")
    write_sums(RecordFolder(record))
    (record / "away").rename(record / "raw")
    assert not is_raw_whole(as_record(record))
    assert is_raw_whole(as_record(remove_sums(record)))


def test_timelines_tables_and_evidence_that_are_missing_together_are_a_gap(record: Path) -> None:
    remove_sums(record)
    for name in (*(f"{table}.parquet" for table in TIMELINE), EVIDENCE):
        (record / name).unlink()
    prepare_record(RecordFolder(record))
    assert {f"evidence.json has no report of the {part}" for part in ("replicas", "checkpoints")} == {
        *gap_reasons(record)
    }


@pytest.mark.parametrize("table", TIMELINE)
@pytest.mark.parametrize("with_sums", [True, False])
def test_a_torn_timeline_without_evidence_is_left_as_it_is(record: Path, table: str, with_sums: bool) -> None:
    if not with_sums:
        remove_sums(record)
    for name in (f"{table}.parquet", EVIDENCE):
        (record / name).unlink()
    prepare_record(RecordFolder(record))
    assert not RecordFolder(record).files(table)
    said = " ".join(gap_reasons(record))
    assert table in said
    assert EVIDENCE in said
