"""Bad inputs in great numbers: each is one clear error, or is judged for what it still proves.

No input ends in an internal error, takes longer than ten seconds, or writes outside of its folder.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import shutil
import signal
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import msgspec
import pyarrow.parquet as pq
import pytest
from bad_inputs import (
    command_line,
    linked_copy,
    outward_scenario,
    spoil_json,
    spoil_record,
    spoil_text_file,
    spoiled_scenario,
)
from bad_kinds import endless_scenario, odd_words, spoil_by_kind
from checkout import DATA
from damage import write_current_sums
from pyspark.sql import SparkSession
from quick import quick_first
from real_records import unpack_record

from analysis.items import check_record
from analysis.judging.many_records import Bug, judge_many
from analysis.judging.one_record import prepare_record, verdict_of
from analysis.reconcile.model import Reconciliation
from analysis.report.html import write_report
from ebbtide.errors import EbbtideError, ExitCode, UsageError
from ebbtide.folders import remove_folder
from ebbtide.record import open_run
from ebbtide.record.files import RecordFolder
from ebbtide.record.tables import ANOMALY_SCHEMA
from ebbtide.record.verdict import Counts
from ebbtide.scenario import catalogue
from harness.cli.main import main, root_command
from harness.runner import launch

NAME = "last-replica-standing-3.9.1"
LONGEST_S, WAITED_S = 10, 90
"""CPU time of one input, and the time after which an input waits for ever: the host may be busy."""
SLICES = 7
"""What depends on whether a number is even or a multiple of three or four, comes about in each slice."""
SPOILED_RECORDS, SCENARIOS, SETTINGS, COMMAND_LINES, STORES, ODD_WORDS = 70, 160, 160, 160, 60, 40
JUDGED_RECORDS = 10


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole record of a real run, judged."""
    folder = tmp_path_factory.mktemp("records")
    unpacked = unpack_record(NAME, folder)
    shutil.copy(DATA / "verdicts" / f"{NAME}.json", unpacked / "verdict.json")
    write_current_sums(unpacked)
    return unpacked


@pytest.fixture(autouse=True)
def _nothing_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def stop(*_: object, **__: object) -> None:
        raise UsageError("stopped by the test, before anything would start")

    def crash(error: BaseException) -> str:
        raise AssertionError("".join(traceback.format_exception(error)[-3:])) from error

    for name in ("check", "prepare"):
        monkeypatch.setattr(launch, name, stop)
    monkeypatch.setattr("cluster.doctor.require_host", stop)
    monkeypatch.setattr("cluster.doctor.require_memory", stop)
    monkeypatch.setattr("harness.cli.crash.write_crash_report", crash)
    monkeypatch.setattr("analysis.spark.session.session", stop)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """End a block that uses ten seconds of CPU, or that waits for something that does not come, with `TimeoutError`."""

    def end(*_: object) -> None:
        raise TimeoutError("too long")

    timers = ((signal.SIGPROF, signal.ITIMER_PROF, LONGEST_S), (signal.SIGALRM, signal.ITIMER_REAL, WAITED_S))
    before = [signal.signal(number, end) for number, _, _ in timers]
    for _, timer, seconds in timers:
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for (number, timer, _), handler in zip(timers, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)


def tried(what: str, act: Callable[[Any], object], given: Any) -> list[str]:
    """Return what is wrong with how an input ended; empty if nothing is."""
    try:
        with limited():
            act(given)
    except EbbtideError as error:
        lines = str(error).splitlines()
        return [] if lines and lines[0].strip() else [f"{what}: an error without words"]
    except (Exception, SystemExit) as error:
        return [f"{what}: {type(error).__name__}: {str(error)[-1500:]}"]
    return []


def files_in(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*")}


def numbers(count: int, part: int) -> range:
    """The seeds of one of the slices."""
    return range(part, count, SLICES)


def judge_without_spark(record: Path) -> None:
    prepared = prepare_record(RecordFolder(record))
    check_record(prepared)
    found = Reconciliation(counts=Counts())
    (record / "anomalies").mkdir(exist_ok=True)
    pq.write_table(ANOMALY_SCHEMA.empty_table(), record / "anomalies" / "none.parquet")
    verdict = verdict_of(prepared, found)
    assert verdict.outcome != "as-predicted"
    write_report(prepared, verdict)


def read_all(record: Path) -> None:
    run = open_run(record)
    for name in run.tables:
        with contextlib.suppress(UsageError):
            getattr(run, name)()
    for read in (run.steps, run.client_events, run.wire_events, run.verdict):
        with contextlib.suppress(UsageError):
            read()


@pytest.mark.parametrize("spoil", [spoil_record, spoil_by_kind])
@pytest.mark.parametrize("part", quick_first(range(SLICES)))
def test_no_spoiled_record_ends_judging_or_a_verb_in_an_internal_error(
    record: Path,
    tmp_path: Path,
    part: int,
    spoil: Callable[[Path, int], str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    wrong = []
    for seed in numbers(SPOILED_RECORDS, part):
        spoiled = linked_copy(record, tmp_path / "runs" / "run")
        how = f"record {seed}, {spoil(spoiled, seed)}"
        if seed % 2:
            # Nothing says then what was spoiled, and more of the record is read.
            with contextlib.suppress(OSError):
                (spoiled / "SHA256SUMS").unlink()
        name = str(spoiled)
        for arguments in (
            ["runs", "--runs", str(tmp_path / "runs"), "--json"],
            ["replay", name],
            ["shrink", name],
            ["explain", name, "t-0:5"] if seed % 3 else ["explain", name],
            ["runs", "compare", name, str(record), "--out", f"{name}/c.html"]
            if seed % 4 == 0
            else ["run", f"{name}/scenario.toml"],
        ):
            wrong += tried(f"ebbtide {arguments[0]}, {how}", main, arguments)
        wrong += tried(f"open_run, {how}", read_all, spoiled)
        wrong += tried(how, judge_without_spark, spoiled)
        assert "Traceback" not in "".join(capsys.readouterr())
        remove_folder(tmp_path / "runs")
        wrong += [f"{how}: wrote {path}" for path in files_in(tmp_path)]
    assert wrong == []


@pytest.mark.parametrize("part", quick_first(range(SLICES)))
def test_no_endless_number_and_no_odd_place_ends_in_an_internal_error(
    record: Path, tmp_path: Path, part: int, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong, texts = [], [catalogue.text_of(name) for name in catalogue.names()]
    file = tmp_path / "x.toml"
    for seed in numbers(ODD_WORDS, part):
        file.write_text(endless_scenario(texts[seed % len(texts)], seed))
        wrong += tried(f"scenario {seed}", main, ["scenarios", "check", str(file)])
        word = odd_words(seed)
        for words in (
            ["run", "healthy", "--kafka", word],
            ["replay", str(record), "--kafka", word],
            ["explain", str(record), word],
            ["spec", "rules", word],
            ["scenarios", "check", word],
            ["runs", "--runs", word],
            ["advise", word],
            ["advise", "--bootstrap", "127.0.0.1:1", "--command-config", word],
            ["nightly", "--kafka", word, "--store", str(tmp_path / "store"), "--budget", "1s"],
            ["cluster", "fault", "kill", word],
        ):
            wrong += tried(f"ebbtide {words!r:.200}", main, words)
        assert "Traceback" not in "".join(capsys.readouterr())
    assert wrong == []


@pytest.mark.parametrize("part", quick_first(range(SLICES)))
def test_no_spoiled_scenario_ends_in_an_internal_error(
    tmp_path: Path, part: int, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong, texts = [], [catalogue.text_of(name) for name in catalogue.names()]
    for seed in numbers(SCENARIOS, part):
        file = tmp_path / "x.toml"
        how = f"scenario {seed}, {spoiled_scenario(texts[seed % len(texts)], file, seed)}"
        for verb in (("scenarios", "check"), ("run",)):
            wrong += tried(f"ebbtide {' '.join(verb)}, {how}", main, [*verb, str(file)])
        assert "Traceback" not in "".join(capsys.readouterr())
        shutil.rmtree(file) if file.is_dir() and not file.is_symlink() else file.unlink(missing_ok=True)
        wrong += [f"{how}: wrote {path}" for path in files_in(tmp_path)]
    assert wrong == []


@pytest.mark.parametrize("part", quick_first(range(SLICES)))
def test_no_scenario_sets_what_leads_out_of_its_cluster(
    tmp_path: Path, part: int, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong, texts = [], [catalogue.text_of(name) for name in catalogue.names()]
    for seed in numbers(SETTINGS, part):
        file = tmp_path / "x.toml"
        how = outward_scenario(texts[seed % len(texts)], file, seed)
        for verb in (("scenarios", "check"), ("run",)):
            exit_code = main([*verb, str(file)])
            said = "".join(capsys.readouterr().err.split())
            if exit_code != ExitCode.USAGE or how.split()[1] not in said:
                wrong.append(f"{' '.join(verb)} takes {how}")
        file.unlink()
        wrong += [f"{how}: wrote {path}" for path in files_in(tmp_path)]
    assert wrong == []


_VERBS = (
    *("run", "nightly", "nightly site", "replay", "shrink", "analyze", "explain", "runs", "runs compare", "random"),
    "scenarios check",
)


def options_of(verb: str) -> dict[str, bool]:
    command: click.Command | None = root_command()
    for word in verb.split():
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), word)
    assert command is not None
    return {one.opts[-1]: not one.is_flag for one in command.params if isinstance(one, click.Option)}


@pytest.mark.parametrize("part", quick_first(range(SLICES)))
def test_no_command_line_ends_in_an_internal_error(
    part: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, record: Path
) -> None:
    # `analyze -` reads it.
    monkeypatch.setattr("sys.stdin", io.StringIO())
    wrong = []
    for seed in numbers(COMMAND_LINES, part):
        verb = _VERBS[seed // SLICES % len(_VERBS)]
        first = [str(record)] if seed % 3 == 0 and verb in ("replay", "shrink", "explain") else []
        arguments = command_line([*verb.split(), *first], options_of(verb), seed)
        if "/etc" in arguments or "/" in arguments or "--out" in arguments:
            continue
        wrong += tried(f"ebbtide {arguments!r:.300}", main, arguments)
        assert "Traceback" not in "".join(capsys.readouterr())
    assert wrong == []


def make_store(folder: Path) -> dict[str, Path]:
    job: dict[str, Any] = {"scenario": "healthy", "target": {"kafka": "4.4.0"}, "runtime": "local", "number": 1}
    done = {"night": "20261120T020000", "job": job, "run_id": "r", "ended": "contradicted", "why": ["x"]}
    files = {
        "history.jsonl": done,
        "nights/20261120T020000/plan.json": {"night": "20261120T020000", "settings": {"a": "b"}, "started_s": 1.5},
        "nights/20261120T020000/followups.json": [{"run_id": "r", "times": 3}],
    }
    made = {}
    for name, content in files.items():
        made[name] = folder / name
        made[name].parent.mkdir(parents=True, exist_ok=True)
        made[name].write_text(msgspec.json.encode(content).decode() + "\n")
    return made


@pytest.mark.parametrize("part", quick_first(range(SLICES)))
def test_no_spoiled_store_ends_in_an_internal_error(
    tmp_path: Path, part: int, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = []
    for seed in numbers(STORES, part):
        store = tmp_path / "store"
        roll = random.Random(seed)
        path = roll.choice(sorted(make_store(store).values()))
        how = f"store {seed}, {path.name}: {roll.choice((spoil_json, spoil_text_file))(path, roll)}"
        for arguments in (
            ["nightly", "site", str(store)],
            ["nightly", "--store", str(store), "--scenarios", "healthy"],
            ["runs", "--runs", str(store)],
        ):
            wrong += tried(f"ebbtide {arguments[0]}, {how}", main, arguments)
        assert "Traceback" not in "".join(capsys.readouterr())
        shutil.rmtree(store)
        wrong += [f"{how}: wrote {path}" for path in files_in(tmp_path)]
    assert wrong == []


@pytest.mark.slow
@pytest.mark.spark
def test_a_spoiled_record_is_at_best_inconclusive(record: Path, tmp_path: Path, spark: SparkSession) -> None:
    """Every file outside raw/ and logs/ has its checksum, so every damage to one shows."""
    how = {}
    for seed in range(JUDGED_RECORDS):
        spoiled = linked_copy(record, tmp_path / f"run-{seed}")
        shutil.rmtree(spoiled / "logs")
        shutil.rmtree(spoiled / "raw")
        (spoiled / "verdict.json").unlink()
        (spoiled / "SHA256SUMS").rename(tmp_path / "sums")
        how[spoiled] = spoil_record(spoiled, 20_000 + seed)
        (tmp_path / "sums").rename(spoiled / "SHA256SUMS")
    ends = dict(judge_many([*how], spark))
    wrong = [
        f"{how[one]}: {end.error!r}" if isinstance(end, Bug) else f"{how[one]}: {end.outcome}"  # type: ignore[union-attr]
        for one, end in ends.items()
        if isinstance(end, Bug) or (not isinstance(end, EbbtideError) and end.outcome != "inconclusive")
    ]
    assert wrong == []
    assert sum(not isinstance(end, EbbtideError) for end in ends.values()) > 2
