"""What bench.reconcile makes of its measurements, what it plants and finds, and that it leaves nothing behind."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from benches import ROOT, assert_ended_well, run_bench
from reconcile_rows import sum_up

from analysis.record.record import Record
from bench import made_record
from bench.made_record import make_record
from bench.reconcile import Maker, kept_record
from bench.reconcile_engines import ENGINES, EngineRun
from bench.reconcile_table import Size, growths
from ebbtide.record.folder import RecordFolder
from ebbtide.waiting import wait_until

PLANTED = {"lost": 72, "unseen": 72}
OUT_OF_MEMORY = EngineRun(time_s=12.3, failure="could not allocate | 4.0 GiB used")


def engine_runs(*times: float, found: dict[str, int] | None = None) -> list[EngineRun]:
    return [EngineRun(time_s=time, cpu_s=2 * time, found=found) for time in times]


def size(asked: int, **runs: list[EngineRun]) -> Size:
    return Size(asked=asked, rows=asked, runs=runs)


@pytest.mark.parametrize(("time_s", "linear"), [(10.0, "yes"), (11.0, "yes"), (11.2, "no")])
def test_linear_is_up_to_a_tenth_more_time_than_events(time_s: float, linear: str) -> None:
    (growth,) = growths([size(2_000_000, ebbtide=engine_runs(1.0)), size(20_000_000, ebbtide=engine_runs(time_s))])
    assert growth.row().endswith(f"| {time_s:.2f} | {time_s / 10:.2f} | {linear} |")


def test_a_failure_is_reported_and_is_no_mistake() -> None:
    one = size(200_000_000, ebbtide=[OUT_OF_MEMORY], read_once=engine_runs(9.0))
    assert one.mistakes(PLANTED) == []
    assert one.failed_engines() == ["ebbtide"]
    row = one.table()[0]
    assert "| failed after 12.3 s: could not allocate / 4.0 GiB used |" in row
    assert {line.count("|") for line in one.table()} == {7}


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"lost": 72, "unseen": 71}, "ebbtide finds 71 items of unseen, of which the record has 72"),
        ({"lost": 72}, "ebbtide finds 0 items of unseen, of which the record has 72"),
        (PLANTED | {"vanished": 1}, "ebbtide finds 1 items of vanished, of which the record has 0"),
    ],
)
def test_that_other_items_are_found_than_were_planted_is_reported_also_for_one_round(
    found: dict[str, int], said: str
) -> None:
    runs = [*engine_runs(1.0, found=PLANTED), *engine_runs(1.0, 1.0, found=found)]
    assert size(200_000, ebbtide=runs).mistakes(PLANTED) == [said]


def _make(record: Path, asked: int) -> int:
    record.mkdir(parents=True)
    (record / "rows").write_text("all")
    return asked + 1


def test_a_record_is_made_once_and_then_taken_from_its_folder(tmp_path: Path) -> None:
    made: list[int] = []

    def make(record: Path, asked: int) -> int:
        made.append(asked)
        return _make(record, asked)

    for _ in range(2):
        assert kept_record(tmp_path, 200, tmp_path / "scratch", Maker(make=make, digest="a", planted={})) == (
            tmp_path / "record-200",
            201,
        )
    assert made == [200]


@pytest.mark.parametrize("left", ["another maker's", "somebody's"])
def test_what_was_not_made_by_this_maker_is_neither_used_nor_touched(tmp_path: Path, left: str) -> None:
    record = tmp_path / "record-200"
    if left == "somebody's":
        record.mkdir()
    else:
        kept_record(tmp_path, 200, tmp_path / "scratch", Maker(make=_make, digest="b", planted={}))
    before = sorted(record.iterdir())
    with pytest.raises(FileExistsError, match="was not made by this"):
        kept_record(tmp_path, 200, tmp_path / "scratch", Maker(make=_make, digest="a", planted={}))
    assert sorted(record.iterdir()) == before


@pytest.mark.parametrize("asked", [200, 20_000])
def test_a_made_record_has_the_answers_of_a_broker_in_the_order_in_which_they_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: int
) -> None:
    monkeypatch.setattr(made_record, "_CHUNK", 2_000)
    make_record(tmp_path / "record", asked)
    assert not sum_up(Record.at(RecordFolder(tmp_path / "record"))).facts.clock_went_back


@pytest.mark.slow
@pytest.mark.spark
def test_every_engine_finds_what_is_planted_in_a_small_record() -> None:
    done = run_bench("reconcile", "1e4")
    assert_ended_well(done)
    assert [line.split("|")[2].strip() for line in done.stdout.splitlines()[4:]] == list(ENGINES)


_WITHOUT_END = """
import sys
from pathlib import Path
from bench import reconcile

def make(record, asked):
    record.mkdir(parents=True)
    return asked

reconcile.maker = lambda: reconcile.Maker(make=make, digest="a", planted={})
reconcile.engine_command = lambda *_: ["sh", "-c", "sleep 600 & wait"]
reconcile.end_as_a_shell_tells(lambda: reconcile.main(["200", "--engines", "ebbtide", "--folder", sys.argv[1]]))
"""


def test_a_signal_ends_the_engine_and_leaves_nothing_but_the_record(tmp_path: Path) -> None:
    def engine() -> list[psutil.Process]:
        found = psutil.Process(process.pid).children(recursive=True)
        return found if any(one.name() == "sleep" for one in found) else []

    process = subprocess.Popen(
        [sys.executable, "-c", _WITHOUT_END, str(tmp_path)], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )
    started = wait_until(engine, awaited="the engine", timeout_s=30)
    process.send_signal(signal.SIGTERM)
    _, complained = process.communicate(timeout=30)
    assert (process.returncode, complained) == (143, "")
    assert not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in started)
    assert [path.name for path in tmp_path.iterdir()] == ["record-200"]
