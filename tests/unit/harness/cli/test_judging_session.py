"""Judgements of one process share a Java process, and outlive it.

Each test kills Java processes, so it has a Python process of its own.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from ebbtide.record.verdict import VERDICT

ROOT = Path(__file__).parents[4]
RECORD = ROOT / "tests" / "data" / "runs" / "last-replica-standing-3.9.1"
"""A record with losses: one without a possible anomaly needs no Java process."""

pytestmark = [pytest.mark.spark, pytest.mark.slow]

_SCRIPT = """
import json, os, signal, sys
from pathlib import Path
from analysis.items import on_spark
from analysis.spark.session import Jvm
from ebbtide.errors import EbbtideError
from harness.cli.analyze_stdin import JudgingSession, judge_together

records = [Path(one) for one in sys.argv[1:]]
pids, errors, session = [], {}, JudgingSession()

def kill():
    os.kill(pid(), signal.SIGKILL)

def pid():
    return Jvm.running._gateway.proc.pid

def judge(*records):
    ends = judge_together(session, records)
    errors.update({record.name: end.what for record, end in ends.items() if isinstance(end, EbbtideError)})
    pids.append(pid() if Jvm.running else None)
    return {record.name: "failed" if isinstance(end, EbbtideError) else end.outcome for record, end in ends.items()}

def as_killer(choose):
    def choose_or_kill(one, write):
        if one.run.folder.path.name == "killer":
            kill()
        return choose(one, write)
    return choose_or_kill
"""


@pytest.fixture
def records(tmp_path: Path) -> list[Path]:
    """Three copies of a record without a verdict; the last one is named `killer`."""
    copies = [Path(shutil.copytree(RECORD, tmp_path / name)) for name in ("one", "two", "killer")]
    for copy in copies:
        (copy / VERDICT).unlink(missing_ok=True)
    return copies


def ran(script: str, records: list[Path]) -> Any:
    words = [sys.executable, "-c", f"{_SCRIPT}\n{script}", *map(str, records)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_record_that_ends_the_java_process_stops_no_other_record(records: list[Path]) -> None:
    script = """
on_spark.choose = as_killer(on_spark.choose)
print(json.dumps([judge(*records), judge(records[0]), errors]))
session.close()
"""
    ends, next_ends, errors = ran(script, records)
    assert ends == {"one": "inconclusive", "two": "inconclusive", "killer": "failed"}
    assert errors == {"killer": "Spark's Java process was killed"}
    assert next_ends == {"one": "inconclusive"}
    whole = json.loads((records[0] / VERDICT).read_text())
    assert whole["counts"] == json.loads((records[1] / VERDICT).read_text())["counts"]


@pytest.mark.parametrize("dies", [False, True])
def test_records_whose_paths_come_on_stdin_share_a_java_process_and_outlive_it(
    records: list[Path], *, dies: bool
) -> None:
    words = [sys.executable, "-P", "-m", "ebbtide", "analyze", "-"]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def ask(record: Path) -> Any:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{record}\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        def java() -> psutil.Process:
            (found,) = (one for one in psutil.Process(process.pid).children() if one.name() == "java")
            return found

        expected = {"outcome": "inconclusive", "exit_code": 2, "failure": None, "can_judge": True}
        assert ask(records[0]) == {"record": str(records[0]), **expected}
        first = java()
        missing = ask(records[0].parent / "none")
        assert (missing["outcome"], missing["exit_code"]) == (None, 4)
        assert "none" in missing["failure"]
        process.stdin.write("\0".join(map(str, (records[1], "none", records[2]))) + "\n")
        process.stdin.flush()
        together = [json.loads(process.stdout.readline()) for _ in range(3)]
        assert [one["exit_code"] for one in together] == [2, 4, 2], "each record of a line has an answer"
        assert java() == first
        if dies:
            first.kill()
            assert ask(records[0]) == {"record": str(records[0]), **expected}
            assert java() != first
        process.stdin.close()
        assert process.wait(300) == 4
    verdicts = {(record / VERDICT).read_bytes() for record in records}
    assert len(verdicts) == 1
