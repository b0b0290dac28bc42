"""What bench.reconcile makes of its measurements, what it plants and finds, and that it leaves nothing behind."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import psutil
import pyarrow.dataset as ds
import pytest
from benches import ROOT, assert_ended_well, run_bench
from reconcile_rows import sum_up

from analysis.record.record import Record
from bench import made_record
from bench.made_record import ITEMS, make_record
from bench.reconcile import Maker, engines, events, kept_record, main
from bench.reconcile_engines import ENGINES, EngineRun, failed_run
from bench.reconcile_table import Growth, Size, growths, spread
from ebbtide.record.folder import RecordFolder
from ebbtide.waiting import wait_until

PLANTED = {"lost": 72, "unseen": 72}
OUT_OF_MEMORY = EngineRun(time_s=12.3, failure="could not allocate | 4.0 GiB used", out_of_memory=True)


def engine_runs(*times: float, found: dict[str, int] | None = None) -> list[EngineRun]:
    return [EngineRun(time_s=time, cpu_s=2 * time, found=found) for time in times]


def size(asked: int, **runs: list[EngineRun]) -> Size:
    return Size(asked=asked, rows=asked, runs=runs)


def steps(found: list[Growth]) -> list[tuple[str, int, int, float]]:
    return [(one.engine, one.smaller, one.larger, round(one.ratio, 3)) for one in found]


def test_a_spread_is_the_median_and_the_extremes() -> None:
    assert spread([3.0, 1.0, 10.0]) == "3.0 (1.0 to 10.0)"


def test_growth_is_from_each_size_to_the_next_whatever_their_order() -> None:
    sizes = [size(2_000_000, ebbtide=engine_runs(8.0)), size(200_000, ebbtide=engine_runs(1.0, 2.0, 9.0))]
    assert steps(growths(sizes)) == [("ebbtide", 200_000, 2_000_000, 0.4)]


def test_growth_over_all_large_sizes_leaves_small_ones_out() -> None:
    sizes = [size(asked, duckdb=engine_runs(asked / 1e6)) for asked in (200_000, 2_000_000, 20_000_000, 200_000_000)]
    assert [(one.smaller, one.larger) for one in growths(sizes)] == [
        (200_000, 2_000_000),
        (2_000_000, 20_000_000),
        (20_000_000, 200_000_000),
        (2_000_000, 200_000_000),
    ]


@pytest.mark.parametrize(("time_s", "linear"), [(10.0, "yes"), (11.0, "yes"), (11.2, "no")])
def test_linear_is_up_to_a_tenth_more_time_than_events(time_s: float, linear: str) -> None:
    (growth,) = growths([size(2_000_000, ebbtide=engine_runs(1.0)), size(20_000_000, ebbtide=engine_runs(time_s))])
    assert growth.row().endswith(f"| {time_s:.2f} | {time_s / 10:.2f} | {linear} |")


def test_a_size_at_which_an_engine_failed_or_did_not_run_has_no_growth() -> None:
    sizes = [
        size(2_000_000, duckdb=engine_runs(1.0), pandas=engine_runs(1.0)),
        size(20_000_000, duckdb=[*engine_runs(1.0), OUT_OF_MEMORY], pandas=[]),
        size(200_000_000, duckdb=engine_runs(300.0)),
    ]
    assert steps(growths(sizes)) == [("duckdb", 2_000_000, 200_000_000, 3.0)]


def test_out_of_memory_is_reported_with_the_limit_and_is_no_mistake() -> None:
    one = size(200_000_000, ebbtide=engine_runs(9.0, found=PLANTED), duckdb=[OUT_OF_MEMORY])
    assert one.mistakes(PLANTED) == []
    assert one.failed_engines() == []
    row = one.table({"duckdb": "4GiB"})[1]
    assert "| out of memory (limit 4GiB) after 12.3 s: could not allocate / 4.0 GiB used |" in row
    assert {line.count("|") for line in one.table({})} == {9}


def test_the_ratio_to_duckdb_is_of_the_rounds_in_which_it_did_not_fail() -> None:
    one = size(200_000, ebbtide=engine_runs(9.0, 4.0), duckdb=[OUT_OF_MEMORY, *engine_runs(2.0)])
    assert "| 2.0 (2.0 to 2.0) |" in one.table({})[0]


@pytest.mark.parametrize(
    ("engine", "failure", "broken"),
    [
        ("duckdb", EngineRun(time_s=1.0, failure="no such column"), ["duckdb"]),
        ("ebbtide", EngineRun(time_s=1.0, failure="heap space", out_of_memory=True), ["ebbtide"]),
        ("pandas", OUT_OF_MEMORY, []),
    ],
)
def test_only_another_engine_may_fail_and_only_for_want_of_memory(
    engine: str, failure: EngineRun, broken: list[str]
) -> None:
    assert size(200_000, **{engine: [failure]}).failed_engines() == broken


def test_engines_that_find_what_was_planted_make_no_mistake() -> None:
    one = size(200_000, ebbtide=engine_runs(1.0, 2.0, found=PLANTED), duckdb=engine_runs(1.0, found=PLANTED))
    assert one.mistakes(PLANTED) == []
    assert size(200_000, **{"read once": engine_runs(1.0)}).mistakes(PLANTED) == []


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"lost": 72, "unseen": 71}, "duckdb finds 71 items of unseen, of which the record has 72"),
        ({"lost": 72}, "duckdb finds 0 items of unseen, of which the record has 72"),
        (PLANTED | {"vanished": 1}, "duckdb finds 1 items of vanished, of which the record has 0"),
    ],
)
def test_an_engine_that_finds_other_items_than_were_planted_is_reported_also_for_one_round(
    found: dict[str, int], said: str
) -> None:
    runs = [*engine_runs(1.0, found=PLANTED), *engine_runs(1.0, 1.0, found=found)]
    assert size(200_000, duckdb=runs).mistakes(PLANTED) == [said]


@pytest.mark.parametrize(("kind", "has"), [("unseen", 72), ("vanished", 0)])
def test_a_kind_that_an_engine_cannot_tell_of_is_a_mistake_with_the_reason(kind: str, has: int) -> None:
    runs = [EngineRun(time_s=1.0, found=PLANTED, unknown={kind: "the clock was set back"})]
    assert size(200_000, ebbtide=runs).mistakes(PLANTED) == [
        f"ebbtide cannot tell of {kind}, of which the record has {has}: the clock was set back"
    ]


class OutOfMemoryException(Exception):
    """What DuckDB throws."""


@pytest.mark.parametrize(
    ("error", "out_of_memory", "said"),
    [
        (OutOfMemoryException("Out of Memory Error: failed\n\nPossible solutions:\n* more"), True, "Out of Memory"),
        (MemoryError(), True, "MemoryError"),
        (RuntimeError("java.lang.OutOfMemoryError: Java heap space\n\tat x"), True, "java.lang.OutOf"),
        (ValueError("Out of range"), False, "Out of range"),
    ],
)
def test_the_error_of_an_engine_is_reported_in_one_line(error: Exception, out_of_memory: bool, said: str) -> None:
    told = failed_run(error, 3.0)
    assert told.out_of_memory is out_of_memory
    assert told.failure is not None
    assert told.failure.startswith(said)
    assert "\n" not in told.failure


def test_engines_run_in_their_order_and_each_once() -> None:
    assert engines("read once, duckdb,ebbtide,duckdb") == ("ebbtide", "duckdb", "read once")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--engines", "ebbtide,polars"], "no engine is called 'polars': there are ebbtide, duckdb, pandas, read once"),
        (["--engines", ""], "no engine is called ''"),
        (["2e5", "many"], "'many' is no number of events, such as 2e5"),
        (["nan"], "'nan' is no number of events"),
        (["inf"], "'inf' is no number of events"),
        (["0"], "'0' is no number of events"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_a_sentence(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err.splitlines()[-1]


def test_events_are_written_as_people_write_large_numbers() -> None:
    assert events("2e5") == 200_000
    with pytest.raises(argparse.ArgumentTypeError):
        events("-1")


def _make(record: Path, asked: int) -> int:
    record.mkdir(parents=True)
    (record / "rows").write_text("all")
    return asked + 1


def _make_and_interrupt(record: Path, asked: int) -> int:
    _make(record, asked)
    raise KeyboardInterrupt


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


def test_a_record_that_was_begun_is_made_again(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        kept_record(tmp_path, 200, tmp_path / "scratch-1", Maker(make=_make_and_interrupt, digest="a", planted={}))
    assert not (tmp_path / "record-200").exists()
    assert kept_record(tmp_path, 200, tmp_path / "scratch-2", Maker(make=_make, digest="a", planted={}))[1] == 201


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


@pytest.mark.parametrize("asked", [200, 20_000, 200_000])
def test_a_made_record_has_the_answers_of_a_broker_in_the_order_in_which_they_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: int
) -> None:
    monkeypatch.setattr(made_record, "_CHUNK", 2_000)
    make_record(tmp_path / "record", asked)
    assert not sum_up(Record.at(RecordFolder(tmp_path / "record"))).facts.clock_went_back


@pytest.mark.parametrize("asked", [200, 20_000])
def test_the_high_watermarks_of_a_made_record_go_back_as_often_as_its_items_say(tmp_path: Path, asked: int) -> None:
    make_record(tmp_path / "record", asked)
    rows = ds.dataset(str(tmp_path / "record" / "watermarks")).to_table().to_pylist()
    highest: Counter[int] = Counter()
    items = 0
    for row in rows:
        if row["source"] == "list_offsets":
            items += row["high_watermark"] < highest[row["partition"]]
            highest[row["partition"]] = max(highest[row["partition"]], row["high_watermark"])
    assert items == ITEMS["hw-regression"]


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
reconcile.end_as_a_shell_tells(lambda: reconcile.main(["200", "--engines", "duckdb", "--folder", sys.argv[1]]))
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_engine_and_leaves_nothing_but_the_record(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    def engine() -> list[psutil.Process]:
        found = psutil.Process(process.pid).children(recursive=True)
        return found if any(one.name() == "sleep" for one in found) else []

    process = subprocess.Popen(
        [sys.executable, "-c", _WITHOUT_END, str(tmp_path)], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )
    started = wait_until(engine, awaited="the engine", timeout_s=30)
    process.send_signal(number)
    _, complained = process.communicate(timeout=30)
    assert (process.returncode, complained) == (code, "")
    assert not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in started)
    assert [path.name for path in tmp_path.iterdir()] == ["record-200"]
