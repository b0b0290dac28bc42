"""Each benchmark can be imported, and most run here, small; some start clusters in tests/live/test_benches_live.py."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from benches import ROOT, assert_ended_well, run_bench
from real_records import unpack_record
from replay_records import LOST, SAVED

from bench import random_guidance_model
from bench.reconcile_engines import ENGINES

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
def test_a_record_is_judged_beside_a_busy_loop_by_processes_as_nice_as_the_command() -> None:
    load = ("--loops", "1", "--only", "in a session each")
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
