"""Each benchmark can be imported, and most run here, small; some start clusters in tests/live/test_benches_live.py.

Two take minutes, and what they measure is replaced here: bench.demos and bench.runtimes get two recorded runs instead
of commands.
"""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from benches import ROOT, assert_ended_well, run_bench
from real_records import unpack_record
from replay_records import LOST, SAVED

from bench import demos, random_guidance_model, runtimes
from bench.reconcile_engines import ENGINES
from ebbtide.record.folder import RecordFolder
from ebbtide.record.manifest import read_manifest, write_manifest

BENCHES = [path.stem for path in sorted((ROOT / "bench").glob("*.py")) if "__main__" in path.read_text()]
SMALL_EXPLORE = ("--states", "20000", "--max-bytes-per-state", "5000")


def test_every_benchmark_can_be_imported() -> None:
    for name in BENCHES:
        importlib.import_module(f"bench.{name}")


def test_a_small_search_of_the_explorer_reaches_lower_targets() -> None:
    assert_ended_well(run_bench("explore", *SMALL_EXPLORE, "--min-states-per-s", "1000"))


def test_a_search_that_misses_a_target_ends_with_one() -> None:
    done = run_bench("explore", *SMALL_EXPLORE, "--min-states-per-s", "1e12")
    assert (done.returncode, done.stderr) == (1, "")
    assert "MISSED" in done.stdout


def test_one_series_of_each_kind_runs_on_the_model(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["random_guidance_model", "1"])
    assert random_guidance_model.main() == 0
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()[:3]] == [
        "guided",
        "unguided",
        "reference",
    ]


Command = Callable[..., subprocess.CompletedProcess[str]]


def recorded_runs(*records: Path, exit_code: int = 0) -> Command:
    """In place of `subprocess.run`: the command wrote these records to its `--runs`, on its `--runtime`."""

    def run(command: Sequence[str], **_: object) -> subprocess.CompletedProcess[str]:
        options = dict(pairwise(command))
        for record in records:
            copy = Path(shutil.copytree(record, Path(options["--runs"]) / record.name))
            runtime = options.get("--runtime", "local")
            write_manifest(
                RecordFolder(copy), msgspec.structs.replace(read_manifest(RecordFolder(copy)), runtime=runtime)
            )
        return subprocess.CompletedProcess(command, exit_code, stdout="", stderr="no space")

    return run


class Host:
    """In place of HostState: others use this host at the same time."""

    left: tuple[str, ...] = ()

    @classmethod
    def now(cls) -> Host:
        return cls()

    def left_since(self, before: Host, *marks: str) -> list[str]:
        return list(self.left)


@pytest.mark.parametrize(
    ("run", "left", "code", "said"),
    [
        (recorded_runs(LOST, SAVED), (), 0, "1 of 1 demos as predicted with nothing left"),
        (recorded_runs(LOST, SAVED), ("namespace ebbtide-x",), 1, "namespace ebbtide-x"),
        (recorded_runs(LOST, SAVED, exit_code=3), (), 1, "exit code 3, 2 records: no space"),
        (recorded_runs(LOST), (), 1, "0 of 1 demos"),
    ],
    ids=["good", "something left", "exit code", "one record"],
)
def test_a_demo_ends_well_only_as_predicted_on_both_releases_with_nothing_left(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    run: Command,
    left: tuple[str, ...],
    code: int,
    said: str,
) -> None:
    monkeypatch.setattr(sys, "argv", ["demos", "1"])
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(demos, "HostState", Host)
    monkeypatch.setattr(Host, "left", left)
    assert demos.main() == code
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("run", "code", "said"),
    [
        (recorded_runs(LOST, SAVED), 0, "local 3.9.1: as-predicted"),
        (recorded_runs(LOST, SAVED, exit_code=1), 1, "docker 4.3.1: as-predicted"),
        (recorded_runs(exit_code=3), 1, "no run"),
    ],
    ids=["good", "exit code", "no record"],
)
def test_both_runtimes_are_listed_side_by_side_and_a_run_that_fails_ends_with_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], run: Command, code: int, said: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["runtimes", "1"])
    monkeypatch.setattr(subprocess, "run", run)
    assert runtimes.main() == code
    out, complained = capsys.readouterr()
    assert said in out
    assert complained.count("no space") == 2 * code
    assert [line.split()[0] for line in out.splitlines()[-2:]] == ["local", "docker"]


def test_a_small_made_cluster_is_read_and_advised() -> None:
    assert_ended_well(run_bench("advise", "--topics", "8", "--partitions", "2", "--max-s", "100"))


def test_the_benches_of_clusters_print_their_tables_before_anything_was_run(tmp_path: Path) -> None:
    for done in (
        run_bench("advise_clusters", "table", str(tmp_path)),
        run_bench("watch_compose", "table", str(tmp_path)),
    ):
        assert_ended_well(done)
        assert "Kafka |" in done.stdout


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(("options", "became"), [((), "became inconclusive"), (("--watched",), "all with the outcome")])
def test_a_clock_that_was_set_back_accuses_nobody_and_costs_nothing_where_it_was_watched(
    tmp_path: Path, options: Sequence[str], became: str
) -> None:
    record = unpack_record("last-replica-standing-3.9.1", tmp_path)
    done = run_bench("clock_steps", str(record), "--by=-3600", "--moments", "1", *options)
    assert_ended_well(done)
    assert became in done.stdout.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.spark
def test_every_engine_finds_what_is_planted_in_a_small_record() -> None:
    done = run_bench("reconcile", "1e4")
    assert_ended_well(done)
    assert [line.split("|")[2].strip() for line in done.stdout.splitlines()[4:]] == list(ENGINES)


@pytest.mark.slow
@pytest.mark.spark
def test_a_record_is_judged_beside_busy_loops_by_processes_as_nice_as_the_command() -> None:
    load = ("--loops", "2", "--only", "in a session each")
    done = run_bench("judge_on_busy_host", str(LOST), *load, "--run-s", "0", "--max-ratio", "20")
    assert_ended_well(done)
    assert [line.split("|")[1].strip() for line in done.stdout.splitlines()[4:]] == ["none", "in a session each"]


def command_that_judges(folder: Path, outcome: str) -> str:
    path = folder / outcome
    path.write_text(f'#!/bin/sh\necho \'{{"outcome": "{outcome}"}}\' > "$2"/verdict.json\n')
    path.chmod(0o755)
    return str(path)


def test_two_commands_whose_verdicts_of_a_small_record_differ_end_with_one(tmp_path: Path) -> None:
    one, other = (command_that_judges(tmp_path, outcome) for outcome in ("as-predicted", "contradicted"))
    done = run_bench("small_record", str(SAVED), "--rounds", "1", "--warm", "0", "--command", one, "--vs", other)
    assert done.returncode == 1
    assert "the verdicts differ" in done.stderr


@pytest.mark.slow
@pytest.mark.spark
def test_a_record_is_judged_again_in_one_session(tmp_path: Path) -> None:
    one = command_that_judges(tmp_path, "as-predicted")
    done = run_bench("small_record", str(SAVED), "--rounds", "1", "--warm", "1", "--command", one, "--bare")
    assert_ended_well(done)
    assert "in one session, 1: " in done.stdout


def test_the_relay_of_published_ports_is_measured_beside_the_port_of_before() -> None:
    done = run_bench("relay", "1", "--share", "0.02", "--any-rate", "--max-added-ms", "500")
    assert_ended_well(done)
    ways = [line.split(" B  ")[1].split("  ")[0] for line in done.stdout.splitlines()[1:5]]
    assert ways == ["direct", "relay, recording", "relay, not recording", "port of before"]
