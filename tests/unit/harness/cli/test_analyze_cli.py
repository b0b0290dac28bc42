"""`ebbtide analyze` and `ebbtide runs` as a person or a script meets them; Spark's part is given, not run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from judge_records import ELR_ON, Story, last_replica_standing
from records import RecordBuilder

from analysis.judging import many_records as many
from analysis.spark import java_start
from analysis.spark import session as spark
from ebbtide.errors import EbbtideError, ExitCode, HarnessError, Problems, UsageError
from ebbtide.record.files import RecordFolder
from ebbtide.record.own_producers import OwnProducer
from ebbtide.record.verdict import Verdict, unfinished_verdict, write_verdict
from harness.cli.main import main

LOSS = 'loss = { committed = "some" }'


@pytest.fixture(autouse=True)
def stories(monkeypatch: pytest.MonkeyPatch) -> dict[Path, Story]:
    """The stories by record; judging one uses its own reconciliation."""
    told: dict[Path, Story] = {}

    @contextmanager
    def session(master: str | None = None, *, rows: int = 0, start: None = None) -> Iterator[None]:
        yield None

    def judge_many(records: Sequence[Path], *_: object) -> Iterator[tuple[Path, Verdict | EbbtideError]]:
        for record in records:
            verdict = told[record].judge()
            write_verdict(RecordFolder(record), verdict)
            yield record, verdict

    monkeypatch.setattr(spark, "session", session)
    monkeypatch.setattr(java_start, "is_first_session", lambda master: False)
    monkeypatch.setattr(many, "judge_many", judge_many)
    return told


@pytest.fixture
def records(tmp_path: Path, stories: dict[Path, Story]) -> dict[str, Path]:
    """One record of each outcome, and one that is none."""
    found = {}
    for name, setup in (("predicted", {}), ("proves-nothing", {}), ("contradicts", {"kafka": "4.1.0"})):
        record = tmp_path / name
        record.mkdir()
        story = last_replica_standing(record, **setup, **({"features": ELR_ON} if setup else {}))
        story.change(run_id=name, start_ns=1_700_000_000_000_000_000 + len(found))
        if name != "proves-nothing":
            story.predict(LOSS)
        story.write()
        stories[record] = story
        found[name] = record
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "manifest.json").write_text("{")
    return {**found, "damaged": tmp_path / "damaged"}


@pytest.mark.parametrize(
    ("names", "code"),
    [
        (["predicted"], 0),
        (["contradicts"], 1),
        (["proves-nothing"], 2),
        (["predicted", "contradicts", "proves-nothing"], 1),
        (["proves-nothing", "predicted"], 2),
        (["damaged", "predicted"], 4),
        (["contradicts", "damaged"], 4),
    ],
)
def test_the_exit_code_is_the_worst_of_all_records(records: dict[str, Path], names: list[str], code: int) -> None:
    assert main(["analyze", *(str(records[name]) for name in names)]) == code


def test_a_record_that_the_harness_could_not_judge_does_not_stop_the_others(
    records: dict[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    judge_many = many.judge_many

    def judge_some(given: Sequence[Path], *rest: Any) -> Iterator[tuple[Path, Verdict | EbbtideError]]:
        for record, verdict in judge_many(given, *rest):
            failed = record == records["contradicts"]
            yield record, HarnessError("no space left") if failed else verdict

    monkeypatch.setattr(many, "judge_many", judge_some)
    assert main(["analyze", str(records["contradicts"]), str(records["predicted"])]) == 3
    out, err = capsys.readouterr()
    assert "no space left" in err
    assert "predicted: as-predicted" in out


def test_a_bad_record_does_not_stop_the_others_from_being_judged(
    records: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    missing = records["damaged"].parent / "nowhere"
    assert main(["analyze", str(missing), str(records["damaged"]), str(records["predicted"]), "--json"]) == 4
    out, err = capsys.readouterr()
    assert [json.loads(line)["run_id"] for line in out.splitlines()] == ["predicted"]
    assert "no such run record" in err
    assert "manifest.json cannot be decoded" in err


def test_a_record_with_damaged_tables_is_named_once(
    records: dict[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def judge_damaged(given: Sequence[Path], *_: object) -> Iterator[tuple[Path, EbbtideError]]:
        yield given[0], Problems(str(given[0]), [UsageError("cut short", where="sends/1.parquet")])

    monkeypatch.setattr(many, "judge_many", judge_damaged)
    assert main(["analyze", str(records["predicted"])]) == 4
    assert capsys.readouterr().err.startswith(f"judging 1 run\nerror: {records['predicted']}: 1 problem\n")


def test_a_folder_of_records_stands_for_all_of_them(
    records: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    (records["damaged"].parent / "notes").mkdir()
    assert main(["analyze", str(records["damaged"].parent), "--json"]) == 4
    out, err = capsys.readouterr()
    assert [json.loads(line)["run_id"] for line in out.splitlines()] == ["contradicts", "predicted", "proves-nothing"]
    assert "damaged/manifest.json" in err
    assert err.count("notes") == 1
    assert f"left out of {records['damaged'].parent}: 1 folder without manifest.json (notes)\n" in err


def test_a_record_that_is_named_twice_is_judged_once(
    records: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    record = records["predicted"]
    assert main(["analyze", str(record), f"{record.parent}/../{record.parent.name}/{record.name}", "--json"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


@pytest.mark.parametrize(
    "master", ["local", "local[2]", "local[*]", "local[2, 3]", "spark://host:7077", "yarn", "k8s://a"]
)
def test_what_spark_takes_for_a_master_is_no_mistake(master: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", "no-such-record", "--master", master]) == 4
    assert "--master" not in capsys.readouterr().err


def test_a_record_may_be_named_by_a_file_address(records: dict[str, Path]) -> None:
    assert main(["analyze", records["predicted"].as_uri()]) == 0


def test_many_records_are_reported_in_a_line_each(
    records: dict[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("harness.cli.verdict_output.SIDE_BY_SIDE_MAX", 1)
    assert main(["analyze", str(records["predicted"]), str(records["proves-nothing"])]) == 2
    out, err = capsys.readouterr()
    told = [line.split(": ")[:2] for line in out.splitlines() if not line.startswith(" ")]
    assert told == [[str(records["predicted"]), "as-predicted"], [str(records["proves-nothing"]), "inconclusive"]]
    both = f"{records['predicted']}, {records['proves-nothing']}"
    assert err.splitlines() == [f"judging 2 runs, and replacing the verdict and the report in each: {both}"]


def test_json_is_one_line_a_record_and_equals_the_file(
    records: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    main(["analyze", "--json", str(records["predicted"]), str(records["contradicts"])])
    lines = capsys.readouterr().out.splitlines()
    files = [json.loads((records[name] / "verdict.json").read_text()) for name in ("predicted", "contradicts")]
    assert [json.loads(line) for line in lines] == files


def test_runs_lists_newest_first_and_damaged_ones_as_such(
    records: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    main(["analyze", str(records["predicted"])])
    capsys.readouterr()
    assert main(["runs", "--runs", str(records["damaged"].parent), "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["run_id"] for row in rows] == ["contradicts", "proves-nothing", "predicted", "damaged"]
    predicted = rows[2]
    assert (predicted["outcome"], predicted["acked"], predicted["lost"]) == ("as-predicted", 1000, 1000)
    assert predicted["bytes"] > 1000
    assert (rows[3]["status"], rows[3]["why"]) == ("damaged", "manifest.json cannot be decoded")
    assert rows[3]["next"].endswith(f"or remove {records['damaged']}")
    assert "outcome" not in rows[0]


def test_runs_tells_which_record_is_a_replay(
    records: dict[str, Path],
    stories: dict[Path, Story],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    story = stories[records["contradicts"]]
    story.change(replay_of="predicted")
    story.write()
    main(["runs", "--runs", str(records["predicted"].parent), "--json"])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["run_id"], row["replay_of"]) for row in rows if "replay_of" in row] == [("contradicts", "predicted")]
    main(["runs", "--runs", str(records["predicted"].parent)])
    (shown,) = [line for line in capsys.readouterr().out.splitlines() if "replay" in line]
    assert shown.endswith(f"  {records['contradicts']} (hand-made, replay)")


def test_runs_shows_what_is_not_known_as_a_question_mark(
    records: dict[str, Path], stories: dict[Path, Story], capsys: pytest.CaptureFixture[str]
) -> None:
    story = stories[records["predicted"]]
    story.lost, story.anomalies = [], []
    story.unknown["lost"] = "there was no final read"
    main(["analyze", str(records["predicted"])])
    capsys.readouterr()
    write_verdict(RecordFolder(records["contradicts"]), unfinished_verdict("contradicts"))
    main(["runs", "--runs", str(records["predicted"].parent)])
    out = capsys.readouterr().out
    assert re.search(r"1,000 +\? ", out)
    assert not re.search(r"\? +\? ", out)  # a run that is not finished is not judged at all


def test_runs_counts_what_a_sparse_file_takes_on_disk(
    records: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    with (records["predicted"] / "disk.img").open("wb") as image:
        image.truncate(1 << 30)
    main(["runs", "--runs", str(records["predicted"].parent), "--json"])
    assert all(json.loads(line)["bytes"] < 1 << 20 for line in capsys.readouterr().out.splitlines())


def test_runs_of_an_empty_folder_says_how_to_make_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "--runs", str(tmp_path)]) == 0
    assert "ebbtide run last-replica-standing" in capsys.readouterr().out


# `ebbtide runs` shows what own producers lost, where any did.


@pytest.mark.parametrize("lost", [0, 500])
def test_a_run_with_published_ports_is_listed_with_its_own_losses(
    lost: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    record = RecordBuilder().send(1).write(tmp_path / "runs" / "run-1")
    own = OwnProducer(client="orders-1", acks=1, topic="orders", partition=0, acked=600, lost=lost)
    judged = msgspec.structs.replace(unfinished_verdict("run-1"), outcome="contradicted", own_producers=[own])
    write_verdict(RecordFolder(record), judged)
    assert main(["runs", "--runs", str(tmp_path / "runs"), "--json"]) == ExitCode.AS_PREDICTED
    row = msgspec.json.decode(capsys.readouterr().out)
    assert row["own_lost"] == lost
    main(["runs", "--runs", str(tmp_path / "runs")])
    listed = capsys.readouterr().out
    assert ("yours lost" in listed) == bool(lost)
    assert ("500" in listed) == bool(lost)
