"""What is no run: the record of a plain cluster, and a folder of records; each says what it is and what to type."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from replay_records import LOST

from analysis.judging.one_record import prepare_record
from ebbtide.errors import ExitCode, UsageError
from ebbtide.record.files import RecordFolder, is_going
from ebbtide.record.manifest import write_manifest
from ebbtide.scenario.model import ClusterSpec
from harness.cli import analyze
from harness.cli.main import main
from harness.daemon.owned_runs import plain_scenario
from harness.runner.run import RunRequest, _Run


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A folder with one run, and the record of one plain cluster."""
    shutil.copytree(LOST, tmp_path / "runs" / "a-run")
    by_hand = tmp_path / "runs" / "by-hand"
    by_hand.mkdir()
    request = RunRequest(scenario=plain_scenario("4.3.1", ClusterSpec()), kafka="4.3.1", seed=1, runs=tmp_path)
    write_manifest(RecordFolder(by_hand), _Run(request, display=None).manifest)  # type: ignore[arg-type]
    return tmp_path / "runs"


@pytest.mark.parametrize("verb", ["analyze", "replay", "shrink"])
def test_the_record_of_a_plain_cluster_is_no_run(verb: str, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["--out", str(store / "x.toml")] if verb == "shrink" else []
    assert main([verb, str(store / "by-hand"), *out]) == ExitCode.USAGE
    told = capsys.readouterr().err
    assert "this is the record of a plain cluster" in told
    assert "next:    ebbtide cluster up SCENARIO" in told


def test_what_is_no_record_is_left_out_in_one_line(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(store / "by-hand")
    assert analyze.records_in(store) == [store / "a-run"]
    assert capsys.readouterr().err == ""
    for name in ("half-a-copy", "b", "c", "d", ".hidden"):
        (store / name).mkdir()
    (store / "compare.html").touch()
    for folder in (store, store.parent):
        assert analyze.records_in(folder) == [store / "a-run"]
        assert capsys.readouterr().err == (
            f"left out of {store}: 4 folders without manifest.json (b, c, d and 1 more)\n"
        )


def test_a_plain_cluster_among_runs_is_not_judged(store: Path) -> None:
    assert analyze.records_in(store) == [store / "a-run"]
    shutil.rmtree(store / "a-run")
    assert analyze.records_in(store) == [store / "by-hand"]


def test_a_list_of_records_leaves_out_files_that_go_meanwhile(
    store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a run that is under way: it replaces files, and its journals go."""
    shutil.copytree(store / "a-run", store.parent / "whole" / "a-run")
    assert main(["runs", "--runs", str(store.parent / "whole"), "--json"]) == 0
    whole = msgspec.json.decode(capsys.readouterr().out)
    walk = os.walk
    monkeypatch.setattr(
        os, "walk", lambda folder: ((root, below, [*names, "gone.part"]) for root, below, names in walk(folder))
    )
    assert main(["runs", "--runs", str(store.parent / "whole"), "--json"]) == 0
    assert msgspec.json.decode(capsys.readouterr().out) == whole


@pytest.mark.parametrize("verb", [["replay"], ["shrink", "--out", "x.toml"]])
def test_a_folder_of_records_names_those_to_choose_from(
    verb: Sequence[str], store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(6):
        shutil.copytree(store / "a-run", store / f"run-{number}")
    for folder in (store, store.parent):
        assert main([*verb, str(folder)]) == ExitCode.USAGE
        told = capsys.readouterr().err
        assert "a folder of records, and not a run record" in told
        assert f"allowed: {store / 'run-5'}, {store / 'run-4'}, " in told
        assert told.rstrip().endswith(f"and 3 more\n  next:    ebbtide runs --runs {store}")


@contextmanager
def another_process(record: Path) -> Iterator[None]:
    """One that runs what the record is of, and is killed in the end."""
    hold = (
        "import sys\nfrom pathlib import Path\nfrom ebbtide.record.files import mark_going\n"
        "from ebbtide.record.files import RecordFolder\n"
        "with mark_going(RecordFolder(Path(sys.argv[1]))): print(flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(record)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        try:
            yield
        finally:
            process.kill()


@pytest.fixture
def running_record(store: Path) -> Iterator[Path]:
    """The one run of the store, which is still going."""
    record = store / "a-run"
    (record / "journal").mkdir()
    with another_process(record):
        yield record


@pytest.mark.parametrize("verb", ["analyze", "replay", "shrink"])
def test_a_run_that_is_still_going_is_left_alone(
    verb: str, running_record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--out", str(running_record / "x.toml")] if verb == "shrink" else []
    assert main([verb, str(running_record), *out]) == ExitCode.USAGE
    assert "this run is still going" in capsys.readouterr().err
    with pytest.raises(UsageError, match="still going"):
        prepare_record(RecordFolder(running_record))
    assert (running_record / "journal").is_dir()


def test_a_run_that_is_still_going_is_left_out_of_its_folder(
    running_record: Path, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(LOST, store / "ended")
    assert analyze.records_in(store) == [store / "ended"]
    assert capsys.readouterr().err == f"left out of {store}: 1 run still running (a-run), 1 plain cluster (by-hand)\n"
    shutil.rmtree(store / "ended")
    with pytest.raises(UsageError, match="every run in this folder is still running"):
        analyze.records_in(store)


def test_a_run_whose_process_was_killed_can_be_judged(store: Path) -> None:
    record = store / "a-run"
    with another_process(record):
        assert is_going(RecordFolder(record))
    assert not is_going(RecordFolder(record))
    assert prepare_record(RecordFolder(record)).manifest.run_id


@pytest.fixture
def with_a_page(tmp_path: Path) -> list[str]:
    """What a shell makes of `runs/*`: the page of a comparison, and two runs."""
    page = tmp_path / "compare-x.html"
    page.touch()
    shutil.copytree(LOST, tmp_path / "r1")
    shutil.copytree(LOST.parent / "last-replica-standing-4.3.1", tmp_path / "r2")
    return [str(page), str(tmp_path / "r1"), str(tmp_path / "r2")]


def test_a_page_among_records_is_skipped_and_named(
    with_a_page: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    judged: list[Path] = []

    def judge_all(records: Sequence[Path], **_: object) -> ExitCode:
        judged.extend(records)
        return ExitCode.AS_PREDICTED

    monkeypatch.setattr(analyze, "judge_all", judge_all)
    page, *records = with_a_page
    assert main(["analyze", *with_a_page]) == ExitCode.AS_PREDICTED
    assert judged == [Path(record) for record in records]
    note = f"{page}: a file, and not a run record, so it is skipped\n"
    assert capsys.readouterr().err == note
    assert main(["runs", "compare", *with_a_page]) == ExitCode.AS_PREDICTED
    assert capsys.readouterr().err == note


@pytest.mark.parametrize("verb", ["explain", "replay", "shrink"])
def test_a_verb_for_one_run_says_what_to_type_for_several(
    verb: str, with_a_page: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """explain has a second argument, so two runs look to it like a run and a place."""
    for names in (with_a_page, with_a_page[1:]):
        assert main([verb, *names]) == ExitCode.USAGE
        told = capsys.readouterr().err
        assert f"error: ebbtide {verb} takes one RUN at a time" in told
        assert re.search(rf"next:    ebbtide {verb} \S*/r[12]    \(one after the other\)", told)


def test_a_folder_above_folders_of_records_says_which_to_type(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    above = tmp_path / "above"
    for name in ("local runs", "docker"):
        shutil.copytree(store, above / name)
    assert main(["analyze", str(above)]) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert "error: no run record in this folder, but in folders below it\n" in said
    assert "got:     docker, local runs\n" in said
    assert f"next:    ebbtide analyze {above}/docker '{above}/local runs'\n" in said
