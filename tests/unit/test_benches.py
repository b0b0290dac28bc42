"""Each benchmark runs in the tests, small; those that start clusters are in tests/live/test_benches_live.py.

Four take minutes, and what they measure is replaced here: bench.demos and bench.runtimes get two recorded runs instead
of commands, bench.chance (test_bench_chance.py) and bench.replays (test_replay_rates_page.py) get runs that were
judged before.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from benches import ROOT, assert_ended_well, run_bench
from nights import World, job
from records import RecordBuilder
from replay_records import LOST, SAVED

from bench import acks, catalogue, chance_model, demos, facts, runtimes
from ebbtide.record.manifest import read_manifest, write_manifest
from harness.nightly.store import Done, Store

BENCHES = [path.stem for path in sorted((ROOT / "bench").glob("*.py")) if "__main__" in path.read_text()]
SMALL_EXPLORE = ("--states", "20000", "--max-bytes-per-state", "5000")


@pytest.mark.parametrize("name", BENCHES)
def test_every_benchmark_has_a_test_that_runs_it(name: str) -> None:
    runs = re.compile(rf'run_bench\("{name}"|\b{name}\.main\(|^from bench\.{name} import .*\bmain\b', re.MULTILINE)
    tests = [path.name for path in (ROOT / "tests").rglob("test_*.py") if runs.search(path.read_text())]
    assert tests != [], f"no test runs bench.{name}: see tests/benches.py"


def test_a_small_search_of_the_explorer_reaches_lower_targets() -> None:
    assert_ended_well(run_bench("explore", *SMALL_EXPLORE, "--min-states-per-s", "1000"))


def test_a_search_that_misses_a_target_ends_with_one() -> None:
    done = run_bench("explore", *SMALL_EXPLORE, "--min-states-per-s", "1e12")
    assert (done.returncode, done.stderr) == (1, "")
    assert "MISSED" in done.stdout


def test_one_campaign_of_each_kind_plays_on_the_stand_in(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["chance_model", "1"])
    assert chance_model.main() == 0
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
            write_manifest(copy, msgspec.structs.replace(read_manifest(copy), runtime=runtime))
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
def test_both_runtimes_are_told_side_by_side_and_a_run_that_fails_ends_with_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], run: Command, code: int, said: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["runtimes", "1"])
    monkeypatch.setattr(subprocess, "run", run)
    assert runtimes.main() == code
    out, complained = capsys.readouterr()
    assert said in out
    assert complained.count("no space") == 2 * code
    assert [line.split()[0] for line in out.splitlines()[-2:]] == ["local", "docker"]


def stored_run(folder: Path, scenario: str) -> Store:
    """A store with one judged run: each producer was told of three records, of which one is gone and one twice."""
    store = World(folder).store
    builder = RecordBuilder()
    for number, topic in enumerate(acks.PRODUCERS):
        builder.on(topic, base=number << 40).acked(1, 2, 3, at=0).final(1, 2, 2)
    builder.write(store.runs / "r")
    store.append(Done(night="n", job=job(1, scenario), run_id="r", ended="as-predicted", took_s=20.0))
    return store


def test_what_acks_buys_is_counted_in_the_records_of_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acks, "PAGE", page := tmp_path / "page.md")
    stored_run(tmp_path / "store", "acks-matrix-kill")
    assert acks.main([str(tmp_path / "store")]) == 0
    rows = [line for line in page.read_text().splitlines() if line.startswith("| 4.3.1 |")]
    assert len(rows) == len(acks.PRODUCERS)
    assert rows[0].startswith("| 4.3.1 | acks=0 | 3 | 1 | 1 |")


def test_a_store_without_runs_of_the_matrix_leaves_the_page_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(acks, "PAGE", page := tmp_path / "page.md")
    stored_run(tmp_path / "store", "healthy")
    with pytest.raises(SystemExit) as ended:
        acks.main([str(tmp_path / "store")])
    assert ended.value.code == 2
    assert "no STORE has judged runs of acks-matrix-kill, " in capsys.readouterr().err
    assert not page.exists()


def test_the_catalogue_takes_the_runs_of_a_store_into_its_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in ((catalogue, "MEASURED"), (catalogue, "PAGE"), (facts, "PAGE")):
        monkeypatch.setattr(module, name, Path(shutil.copy(getattr(module, name), tmp_path)))
    before = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert catalogue.main([]) == 0
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == before
    stored_run(tmp_path / "store", "healthy")
    assert catalogue.main([str(tmp_path / "store")]) == 0
    [row] = [
        row for row in catalogue.stored() if (row.scenario, row.target, row.runtime) == ("healthy", "4.3.1", "local")
    ]
    assert (row.outcomes, row.took_s) == ({"as-predicted": 1}, 20.0)
    assert "| 4.3.1 | local | 1 as-predicted | none | 20 | 1970-01-01 |" in catalogue.PAGE.read_text()
