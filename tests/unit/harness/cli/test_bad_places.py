"""Verbs on folders with damage in them: the damage is said before anything starts, and the rest is still done."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from replay_records import LOST

from ebbtide.errors import ExitCode
from harness.cli.main import main
from harness.cli.runs_compare import default_page
from harness.runner import launch


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["analyze", "x" * 5_000], "a path is too long"),
        (["run", "x" * 5_000], "a path is too long"),
        (["scenarios", "check", "a\0b"], "null byte"),
        (["replay", "/".join(["x" * 200] * 30)], "a path is too long"),
        (["spec", "check", "--variant", "elr-43", "--bounds", "states=0"], "out of bounds"),
        (["nightly", "--budget", "9" * 500 + "h"], "the time is too long"),
    ],
    ids=lambda value: " ".join(value)[:40].replace("\0", "NUL") if isinstance(value, list) else "",
)
def test_what_was_once_accepted_silently_is_refused(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(launch, "check", lambda *_: pytest.fail("went on"))
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == ExitCode.USAGE
    err = capsys.readouterr().err
    assert told in err
    assert len(err) < 1_000
    assert not list(tmp_path.iterdir())


def make_pipe(record: Path) -> None:
    (record / "manifest.json").unlink()
    os.mkfifo(record / "manifest.json")


def make_folder(record: Path) -> None:
    (record / "verdict.json").unlink(missing_ok=True)
    (record / "verdict.json").mkdir()


def make_deep(record: Path) -> None:
    (record / "manifest.json").write_text("[" * 100_000)


def make_nothing(record: Path) -> None:
    (record / "manifest.json").unlink()


@pytest.mark.parametrize("spoil", [make_pipe, make_folder, make_deep, make_nothing])
def test_a_bad_record_is_listed_beside_the_others(
    tmp_path: Path, spoil: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("bad", "good"):
        shutil.copytree(LOST, tmp_path / name)
    spoil(tmp_path / "bad")
    assert main(["runs", "--runs", str(tmp_path), "--json"]) == ExitCode.AS_PREDICTED
    rows = {Path(row["record"]).name: row for row in map(json.loads, capsys.readouterr().out.splitlines())}
    assert rows["bad"]["status"] == "damaged"
    assert rows["bad"]["why"]
    assert rows["good"]["status"] == "complete"


def spoil_history(store: Path) -> None:
    (store / "history.jsonl").write_text("{}\n")


def lead_out_by_history(store: Path) -> None:
    job = {"scenario": "x", "target": {"kafka": "4.4.0"}, "runtime": "local", "number": 1}
    line = {"night": "n", "job": job, "run_id": "../../outside", "ended": "failed"}
    (store / "history.jsonl").write_text(json.dumps(line) + "\n")


def lead_out_by_target(store: Path) -> None:
    job = {"scenario": "x", "target": {"kafka": "../../outside"}, "runtime": "local", "number": 1}
    line = {"night": "n", "job": job, "run_id": "r", "ended": "failed"}
    (store / "history.jsonl").write_text(json.dumps(line) + "\n")


def lead_out_by_plan(store: Path) -> None:
    (store / "nights" / "n").mkdir(parents=True)
    plan = {"night": "../../outside", "settings": {}, "started_s": 0}
    (store / "nights" / "n" / "plan.json").write_text(json.dumps(plan))


def put_pipe(store: Path) -> None:
    os.mkfifo(store / "history.jsonl")


def spoil_followups(store: Path) -> None:
    (store / "nights" / "n").mkdir(parents=True)
    (store / "nights" / "n" / "followups.json").write_bytes(b"\xff")


def spoil_corpus(store: Path) -> None:
    (store / "random" / "4.4.0").mkdir(parents=True)
    (store / "random" / "4.4.0" / "corpus.jsonl").write_text('{"scenario": 1}\n')


@pytest.mark.parametrize(
    "spoil",
    [
        spoil_history,
        lead_out_by_history,
        lead_out_by_target,
        lead_out_by_plan,
        put_pipe,
        spoil_followups,
        spoil_corpus,
    ],
)
def test_a_damaged_store_is_said_before_anything_is_fetched_or_started(
    tmp_path: Path, spoil: Callable[[Path], None], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"
    store.mkdir()
    spoil(store)
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("cluster.doctor.require_host", lambda *_: None)
    monkeypatch.setattr(launch, "prepare", lambda *_: pytest.fail("prepared before"))
    assert main(["nightly", "--store", str(store), "--kafka", "4.4.0", "--scenarios", "healthy"]) == ExitCode.USAGE
    err = capsys.readouterr().err
    assert str(store) in err
    made = {str(store / "runs"), str(store / "lock")}
    assert sorted(str(path) for path in tmp_path.rglob("*") if str(path) not in made) == before


def test_the_site_of_a_hostile_store_is_refused_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "store").mkdir()
    lead_out_by_history(tmp_path / "store")
    assert main(["nightly", "site", str(tmp_path / "store"), "--out", str(tmp_path / "site")]) == ExitCode.USAGE
    assert "run_id" in capsys.readouterr().err
    assert not (tmp_path / "site").exists()


@pytest.mark.parametrize(
    ("arguments", "option"),
    [(["explain", str(LOST), "--html"], "--html"), (["runs", "compare", str(LOST), "{other}", "--out"], "--out")],
    ids=["explain", "compare"],
)
def test_a_page_cannot_replace_a_folder(
    arguments: list[str], option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = shutil.copytree(LOST, tmp_path / "other")
    words = [word.format(other=other) for word in arguments]
    assert main([*words, str(tmp_path)]) == ExitCode.USAGE
    told = capsys.readouterr().err
    assert "the page cannot be written there" in told
    assert f"where:   {tmp_path}\n" in told
    assert f"next:    name another file with {option}\n" in told


def test_a_run_and_a_link_to_it_are_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    link = tmp_path / "link"
    link.symlink_to(LOST)
    assert main(["runs", "compare", str(LOST), str(link)]) == ExitCode.USAGE
    assert "with itself" in capsys.readouterr().err


# The page of a comparison has a name of its own, so that it replaces no other comparison.


def test_comparisons_with_the_same_last_run_have_different_pages(tmp_path: Path) -> None:
    old, new, other = (tmp_path / name for name in ("run-3.9.1", "run-4.3.1", "run-4.0.2"))
    assert default_page([old, new]) == tmp_path / "compare-run-3.9.1-with-4.3.1.html"
    assert default_page([other, new]) == tmp_path / "compare-run-4.0.2-with-4.3.1.html"
    assert default_page([old, other, new]) == tmp_path / "compare-run-3.9.1-1-more-with-4.3.1.html"


def test_the_page_of_the_demo_fits_its_line(tmp_path: Path) -> None:
    runs = ("20261121T124641-last-replica-standing-3.9.1-e31a", "20261121T124655-last-replica-standing-4.3.1-a5ab")
    page = default_page([tmp_path / one for one in runs])
    assert page.name == "compare-last-replica-standing-3.9.1-e31a-with-4.3.1-a5ab.html"
    assert len(f"comparison: runs/{page.name}") <= 80
    twin = tmp_path / "20261121T124641-last-replica-standing-3.9.1-e31a"
    assert default_page([twin, tmp_path / "x" / twin.name]).name.endswith(f"-with-{twin.name[16:]}.html")


def test_the_longest_names_of_folders_make_a_name_that_a_file_system_takes(tmp_path: Path) -> None:
    page = default_page([tmp_path / ("a" * 255), tmp_path / ("b" * 255)])
    page.touch()
