"""The benchmark of small records, with commands that judge nothing, and once with Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from benches import assert_ended_well, run_bench
from replay_records import SAVED

from bench import small_record

WRITES = '#!/bin/sh\necho \'{"outcome": "%s"}\' > "$2"/verdict.json\nexit %d\n'


def _command(folder: Path, name: str, outcome: str, code: int = 0) -> str:
    path = folder / name
    path.write_text(WRITES % (outcome, code))
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(("code", "said"), [(0, "the verdicts differ"), (4, "failed: ")])
def test_a_command_that_fails_or_judges_otherwise_ends_with_one(tmp_path: Path, code: int, said: str) -> None:
    one, other = _command(tmp_path, "one", "as-predicted"), _command(tmp_path, "other", "contradicted", code)
    done = run_bench("small_record", str(SAVED), "--rounds", "1", "--warm", "0", "--command", one, "--vs", other)
    assert done.returncode == 1
    assert said in done.stderr


@pytest.mark.parametrize(
    ("one", "other", "differing"),
    [
        ('{"outcome": "contradicted", "commits": []}', '{"outcome": "contradicted"}', ""),
        ('{"counts": {"acked": 1}}', '{"counts": {"acked": 2}}', "counts"),
        ('{"properties": [{"name": "new", "status": "holds"}]}', '{"properties": []}', ""),
        (
            '{"properties": [{"name": "old", "status": "holds"}], "coverage": {"kills": 1, "new": 2}}',
            '{"properties": [{"name": "old", "status": "unknown"}], "coverage": {"kills": 2}}',
            "old, kills",
        ),
    ],
)
def test_verdicts_differ_in_what_both_commands_know(tmp_path: Path, one: str, other: str, differing: str) -> None:
    (tmp_path / "one").write_text(one)
    (tmp_path / "other").write_text(other)
    assert small_record._difference(tmp_path / "one", tmp_path / "other") == differing


@pytest.mark.slow
@pytest.mark.spark
def test_a_record_is_judged_again_in_one_session(tmp_path: Path) -> None:
    one = _command(tmp_path, "one", "as-predicted")
    done = run_bench("small_record", str(SAVED), "--rounds", "1", "--warm", "1", "--command", one, "--bare")
    assert_ended_well(done)
    assert "in one session, 1: " in done.stdout
    assert [line.split("|")[1].strip() for line in done.stdout.splitlines()[2:5]] == [
        one,
        "bare PySpark",
        "ratio to bare PySpark, round by round",
    ]
