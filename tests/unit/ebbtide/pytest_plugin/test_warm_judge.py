"""The judging process of a pytest session: it serves many records, is replaced when it ends, and says what failed."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ebbtide.pytest_plugin import warm_judge
from ebbtide.pytest_plugin.command_failed import CommandFailed
from ebbtide.pytest_plugin.warm_judge import WarmJudge

_STAND_IN = """
import json, os, sys
from pathlib import Path

assert sys.argv[1:] == ["analyze", "-"]
for line in iter(sys.stdin.readline, ""):
    record = Path(line.rstrip())
    with (record.parent / "asked").open("a") as asked:
        print(os.getpid(), record.name, os.nice(0), file=asked)
    if record.name == "killer" or (record.name == "killer-once" and not (record.parent / "killed").exists()):
        (record.parent / "killed").touch()
        print("it crashed here", file=sys.stderr)
        os._exit(9)
    code, failure = (4, "error: no record") if record.name == "none" else (1, None)
    print(json.dumps({"record": str(record), "outcome": None, "exit_code": code, "failure": failure}), flush=True)
(Path(os.environ["ENDED"])).touch()
"""


@pytest.fixture
def judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WarmJudge]:
    monkeypatch.setenv("ENDED", str(tmp_path / "ended"))
    script = tmp_path / "stand_in.py"
    script.write_text(_STAND_IN)
    made = WarmJudge([sys.executable, str(script)])
    yield made
    made.close()


def asked(folder: Path) -> list[list[str]]:
    return [line.split() for line in (folder / "asked").read_text().splitlines()]


def test_one_process_judges_all_records_and_ends_with_the_session(judge: WarmJudge, tmp_path: Path) -> None:
    judge.begin()
    judge.judge(tmp_path / "one")
    judge.judge(tmp_path / "two")
    (first, *_), (second, *_) = asked(tmp_path)
    assert first == second
    judge.close()
    assert (tmp_path / "ended").exists()
    judge.judge(tmp_path / "three")
    assert asked(tmp_path)[-1][0] != first, "a closed judge starts again"


def test_it_leaves_the_cores_to_clusters(judge: WarmJudge, tmp_path: Path) -> None:
    judge.begin()
    judge.judge(tmp_path / "one")
    assert int(asked(tmp_path)[0][2]) == min(19, os.nice(0) + 5)


def test_a_process_that_ends_is_replaced_and_judges_the_record(judge: WarmJudge, tmp_path: Path) -> None:
    judge.judge(tmp_path / "one")
    judge.judge(tmp_path / "killer-once")
    judge.judge(tmp_path / "two")
    pids = [pid for pid, *_ in asked(tmp_path)]
    assert [name for _, name, _ in asked(tmp_path)] == ["one", "killer-once", "killer-once", "two"]
    assert (pids[0], pids[2]) == (pids[1], pids[3])
    assert pids[0] != pids[2]


def test_a_record_with_which_it_ends_twice_fails_with_its_last_words(judge: WarmJudge, tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match=r"ended twice with .*killer\nit crashed here"):
        judge.judge(tmp_path / "killer")
    judge.judge(tmp_path / "one")


def test_a_record_that_cannot_be_judged_fails_with_the_error_of_the_command(judge: WarmJudge, tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match=r"analyze .*none: exit code 4\nerror: no record"):
        judge.judge(tmp_path / "none")


def test_a_process_that_does_not_end_leaves_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(warm_judge, "_CLOSE_TIMEOUT_S", 0.1)
    made = WarmJudge([sys.executable, "-c", "import signal; signal.pause()"])
    made.begin()
    assert len(list(tmp_path.iterdir())) == 1
    made.close()
    assert list(tmp_path.iterdir()) == []


def test_an_answer_that_is_no_json_fails_with_the_answer(tmp_path: Path) -> None:
    script = tmp_path / "stand_in.py"
    script.write_text("input(); print('oops', flush=True); input()")
    judge = WarmJudge([sys.executable, str(script)])
    with pytest.raises(CommandFailed, match="oops"):
        judge.judge(tmp_path / "one")


def test_a_command_that_does_not_exist_fails() -> None:
    with pytest.raises(CommandFailed, match="the judging process does not start"):
        WarmJudge(["/no/such/command"]).begin()
