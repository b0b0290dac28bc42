"""A release of which nobody told the patch is never shown as a fact."""

from __future__ import annotations

import contextlib
import io
import re
import shutil
from pathlib import Path

import msgspec
import pytest
from checkout import DATA, ROOT
from made_cluster import MadeCluster, served_cluster
from records import as_record

from analysis.report.html import render
from analysis.report.model import build
from analysis.report.summary import judged_run, summary_text
from ebbtide.pytest_plugin.judgement import one_line_summary
from ebbtide.pytest_plugin.run_record import read_record
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import FOREIGN, WatchFacts, read_manifest, write_manifest
from ebbtide.record.sums import write_sums
from ebbtide.record.verdict import read_judgement
from ebbtide.releases.known_releases import minor_of, shown_release
from harness.cli.main import main
from harness.watch.probing import probe_cluster

OTHER = DATA / "runs" / "last-replica-standing-4.3.1"
ASSUMED = "3.9, patch not known, judged as 3.9.1"
AS_A_FACT = re.compile(r"(?<!judged as )3\.9\.1")


@pytest.fixture
def watched(tmp_path: Path) -> Path:
    """The record of a run as if its cluster had only been watched, in a folder of records."""
    record = tmp_path / "runs" / "watched"
    shutil.copytree(DATA / "runs" / "last-replica-standing-3.9.1", record)
    manifest = msgspec.structs.replace(
        read_manifest(RecordFolder(record)),
        run_id="run-1",
        kafka_assumed=True,
        runtime=FOREIGN,
        watch=WatchFacts(clock_distance_ms=1),
    )
    write_manifest(RecordFolder(record), manifest)
    write_sums(RecordFolder(record))
    return record


def page_of(record: Path) -> str:
    return render(build(as_record(record, read_manifest(RecordFolder(record))), read_judgement(RecordFolder(record))))


def printed(*words: object) -> str:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        main([str(word) for word in words])
    return " ".join(output.getvalue().split())


def test_every_text_on_an_assumed_release_says_that_the_patch_is_not_known(watched: Path, tmp_path: Path) -> None:
    compared = tmp_path / "compared.html"
    texts = {
        "analyze": summary_text([judged_run(as_record(watched), read_judgement(RecordFolder(watched)))], 200),
        "explain": printed("explain", watched),
        "compare": printed("runs", "compare", watched, OTHER, "--out", compared, "--json"),
        "report.html": page_of(watched),
        "compared.html": compared.read_text(),
        "pytest": one_line_summary(read_record(watched)),
    }
    for name, text in texts.items():
        assert ASSUMED in text, name
        assert not AS_A_FACT.search(text.replace("last-replica-standing-3.9.1", "")), name


def test_the_list_of_runs_has_a_short_form_of_an_assumed_release_and_says_what_it_means(watched: Path) -> None:
    text = printed("runs", "--runs", watched.parent)
    assert " 3.9.? " in text
    assert "the patch of a watched cluster is not known" in text
    assert not AS_A_FACT.search(text.replace("last-replica-standing-3.9.1", ""))


def test_json_keeps_what_the_judge_assumes_and_says_that_it_does(watched: Path) -> None:
    row = msgspec.json.decode(printed("runs", "--runs", watched.parent, "--json"))
    assert (row["kafka"], row["kafka_assumed"]) == ("3.9.1", True)


@pytest.mark.parametrize(("named", "is_assumed"), [(None, True), ("4.3.0", False)])
def test_a_watch_assumes_the_release_that_nobody_named(named: str | None, is_assumed: bool) -> None:
    with served_cluster(MadeCluster()) as address:
        found = probe_cluster([address], None, named)
    assert found.is_assumed is is_assumed
    assert ("patch not known" in found.shown_kafka) is is_assumed


def test_a_release_is_shown_as_it_is_typed_unless_it_is_assumed() -> None:
    assert shown_release("4.0.2", levels={"b": 1, "a": 0}) == "4.0.2:a=0+b=1"
    assert shown_release("3.9.1", is_assumed=True) == ASSUMED
    assert shown_release("") == "unknown"
    assert minor_of("no release") == "no release"


def test_no_text_prints_the_release_of_a_manifest_itself() -> None:
    texts = re.compile(r'"[^"\n]*\{[\w.]*manifest\.kafka(?:_name)?\}')
    allowed = {"harness/shrink/goal.py"}  # A command to type.
    found = {
        str(path.relative_to(ROOT))
        for folder in ("analysis", "harness", "ebbtide")
        for path in (ROOT / folder).rglob("*.py")
        if texts.search(path.read_text())
    }
    assert found == allowed
