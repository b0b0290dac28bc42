"""The judging process beside clusters: it serves many records, is replaced when it ends, and says what failed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from ebbtide import judging_process
from ebbtide.errors import HarnessError
from ebbtide.judging_process import JudgingProcess
from ebbtide.judging_progress import Heartbeat, ProgressListener, last_place, progress_line
from ebbtide.waiting import WaitExpired, wait_until

_STAND_IN = """
import json, os, sys
from pathlib import Path

assert sys.argv[1:3] == ["analyze", "-"]
lines = iter(sys.stdin.readline, "")
for number, path in ((number, path) for line in lines for number, path in enumerate(line.rstrip("\\n").split("\\0"))):
    record = Path(path)
    name = "+" * (number > 0) + record.name  # "+": in one line with the record before
    with (record.parent / "asked").open("a") as asked:
        print(os.getpid(), name, os.nice(0), *sys.argv[3:], file=asked)
    if record.name == "killer" or (record.name == "killer-once" and not (record.parent / "killed").exists()):
        (record.parent / "killed").touch()
        print("it crashed here", file=sys.stderr)
        os._exit(9)
    if record.name == "nonsense":
        print("this is no answer", flush=True)
        continue
    code, failure = (4, "error: no record") if record.name == "none" else (1, None)
    print(json.dumps({"record": str(record), "outcome": None, "exit_code": code, "failure": failure}), flush=True)
(Path(os.environ["ENDED"])).touch()
"""


@pytest.fixture
def judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[JudgingProcess]:
    monkeypatch.setenv("ENDED", str(tmp_path / "ended"))
    script = tmp_path / "stand_in.py"
    script.write_text(_STAND_IN)
    made = JudgingProcess([sys.executable, str(script)])
    yield made
    made.close()


def asked(folder: Path) -> list[list[str]]:
    return [line.split() for line in (folder / "asked").read_text().splitlines()]


def test_one_process_judges_all_records_and_ends_with_the_session(judge: JudgingProcess, tmp_path: Path) -> None:
    judge.begin()
    judge.judge(tmp_path / "one")
    judge.judge(tmp_path / "two")
    (first, *_), (second, *_) = asked(tmp_path)
    assert first == second
    judge.close()
    assert (tmp_path / "ended").exists()
    judge.judge(tmp_path / "three")
    assert asked(tmp_path)[-1][0] != first, "a closed judge starts again"


_SLOW_STAND_IN = """
import json, os, sys, time
path = sys.stdin.readline().rstrip("\\n")
while not os.path.exists(os.environ["HEARD"]):
    time.sleep(0.001)
print("judging for 0 s: 0 of 1 run done, stage 2 of 7: summing up", file=sys.stderr, flush=True)
sys.stdin.readline()
print(json.dumps({"record": path, "outcome": None, "exit_code": 1}), flush=True)
"""


def test_who_waits_hears_the_stage_and_how_many_records_are_done(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(judging_process, "EVERY_S", 0.01)
    monkeypatch.setenv("HEARD", str(tmp_path / "heard"))
    script = tmp_path / "stand_in.py"
    script.write_text(_SLOW_STAND_IN)
    said: list[str] = []

    def report(line: str) -> None:
        said.append(line)
        (tmp_path / "heard").touch()  # the first stage was said: lets the second one begin
        if "summing up" in line and not judge._held and len(judge._waiting) == 1:
            judge.hand_over(tmp_path / "two")  # lets the first one end

    judge = JudgingProcess([sys.executable, str(script)], report=report)
    with judge:
        judge.judge(tmp_path / "one")
    stages = list(dict.fromkeys(line.partition(" s: ")[2] for line in said))
    assert stages[:2] == [
        "0 of 1 run done, stage 1 of 7: reading",
        "0 of 1 run done, stage 2 of 7: summing up",
    ]


@pytest.fixture
def judge_of_many(judge: JudgingProcess) -> Iterator[JudgingProcess]:
    made = JudgingProcess(judge._command[:2], many=True)
    yield made
    made.close()


def test_a_process_for_many_gets_several_at_once_or_what_there_is_when_one_of_them_is_asked_for(
    judge_of_many: JudgingProcess, tmp_path: Path
) -> None:
    records = [tmp_path / str(number) for number in range(judging_process.TOGETHER + 3)]
    for record in records:
        judge_of_many.hand_over(record)
    assert all(judge_of_many.is_judging(record) for record in records[-3:]), "they wait for more"
    judge_of_many.judge(records[judging_process.TOGETHER - 1])
    assert len(asked(tmp_path)) == judging_process.TOGETHER
    rest = [*records[: judging_process.TOGETHER - 1], *records[judging_process.TOGETHER :]]
    assert [judge_of_many.judge(record).record for record in rest] == [str(record) for record in rest]
    names = [name for _, name, *_ in asked(tmp_path)]
    assert names == ["0", "+1", "+2", "+3", "4", "+5", "+6"]


def test_of_several_records_only_the_one_with_which_the_process_ends_twice_fails(
    judge_of_many: JudgingProcess, tmp_path: Path
) -> None:
    for name in ("one", "killer", "two"):
        judge_of_many.hand_over(tmp_path / name)
    assert judge_of_many.judge(tmp_path / "one").exit_code == 1
    with pytest.raises(HarnessError, match="ended twice with this record"):
        judge_of_many.judge(tmp_path / "killer")
    assert judge_of_many.judge(tmp_path / "two").exit_code == 1


def test_it_says_without_waiting_whether_a_record_is_being_judged(judge: JudgingProcess, tmp_path: Path) -> None:
    assert not judge.is_judging(tmp_path / "never-handed-over")
    records = [tmp_path / name for name in ("one", "two", "killer")]
    judge.hand_over(records[0])
    wait_until(lambda: not judge.is_judging(records[0]), awaited="the first answer", timeout_s=20)
    os.kill(int(asked(tmp_path)[0][0]), signal.SIGSTOP)
    for record in records[1:]:
        judge.hand_over(record)
    assert [judge.is_judging(record) for record in records] == [False, True, True]
    os.kill(int(asked(tmp_path)[0][0]), signal.SIGCONT)
    # The process ends with the third record: only `judge` hands it over again.
    wait_until(lambda: not judge.is_judging(records[2]), awaited="the end of the process", timeout_s=20)
    assert not judge.is_judging(records[1])
    assert [Path(judge.judge(record).record).name for record in records[:2]] == ["one", "two"]
    with pytest.raises(HarnessError, match="ended twice"):
        judge.judge(records[2])


def test_whether_a_record_is_judged_is_answered_also_if_the_process_fails(
    judge: JudgingProcess, tmp_path: Path
) -> None:
    judge.hand_over(tmp_path / "nonsense")
    wait_until(lambda: not judge.is_judging(tmp_path / "nonsense"), awaited="the answer", timeout_s=20)
    with pytest.raises(HarnessError, match="answers with something else"):
        judge.judge(tmp_path / "nonsense")


def test_records_handed_over_are_judged_meanwhile_and_answered_in_any_order(
    judge: JudgingProcess, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        judge.hand_over(tmp_path / name)
    wait_until(
        lambda: (tmp_path / "asked").exists() and len(asked(tmp_path)) == 2, awaited="both questions", timeout_s=30
    )
    assert [judge.judge(tmp_path / name).record for name in ("two", "one")] == [
        str(tmp_path / n) for n in ("two", "one")
    ]
    assert len(asked(tmp_path)) == 2, "an answer that is there is not asked for again"


def test_a_process_that_ends_leaves_no_record_without_an_answer(judge: JudgingProcess, tmp_path: Path) -> None:
    for name in ("one", "killer-once", "two"):
        judge.hand_over(tmp_path / name)
    judge.begin()
    assert judge.judge(tmp_path / "two").exit_code == 1
    assert judge.judge(tmp_path / "killer-once").exit_code == 1
    assert [name for _, name, _ in asked(tmp_path)] == ["one", "killer-once", "killer-once", "two"]


def test_an_error_in_its_block_ends_it_at_once(tmp_path: Path) -> None:
    ended = tmp_path / "ended"
    script = tmp_path / "stand_in.py"
    script.write_text(
        "import signal, sys\n"
        f"signal.signal(signal.SIGTERM, lambda *_: (open({str(ended)!r}, 'w').write('by a signal'), sys.exit(3)))\n"
        "print('{}', flush=True)\n"
        "for line in sys.stdin: pass\n"
        f"open({str(ended)!r}, 'w').write('at the end of its input')\n"
    )

    def fail(judge: JudgingProcess) -> None:
        with judge:
            judge.hand_over(tmp_path / "one")
            assert judge._process is not None
            assert judge._process.stdout is not None
            judge._process.stdout.readline()  # it has its signal handler
            raise KeyError

    with pytest.raises(KeyError):
        fail(JudgingProcess([sys.executable, str(script)]))
    assert ended.read_text() == "by a signal"


def test_one_that_does_not_end_when_it_is_asked_to_is_killed_and_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging_process, "_END_TIMEOUT_S", 0.1)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    deaf = (
        "import signal; from ebbtide.scratch import ScratchFolder; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "mine = ScratchFolder(); print('{}', flush=True); signal.pause()"
    )

    def fail(judge: JudgingProcess) -> None:
        with judge:
            judge.begin()
            assert judge._process is not None
            assert judge._process.stdout is not None
            judge._process.stdout.readline()
            raise KeyError

    with pytest.raises(KeyError):
        fail(JudgingProcess([sys.executable, "-c", deaf]))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["two\nlines", "not \udcff UTF-8"])
def test_a_record_whose_path_is_no_line_is_refused(judge: JudgingProcess, tmp_path: Path, name: str) -> None:
    with pytest.raises(HarnessError, match="cannot be given this record"):
        judge.judge(tmp_path / name)
    assert judge.judge(tmp_path / "one").exit_code == 1


def test_it_ends_while_the_caller_goes_on(judge: JudgingProcess, tmp_path: Path) -> None:
    judge.judge(tmp_path / "one")
    judge.finish()
    wait_until((tmp_path / "ended").exists, awaited="the end of the process", timeout_s=30)


def test_a_record_that_cannot_be_judged_has_the_error_of_the_command(judge: JudgingProcess, tmp_path: Path) -> None:
    answer = judge.judge(tmp_path / "none")
    assert (answer.exit_code, answer.failure) == (4, "error: no record")


def test_a_process_that_does_not_end_leaves_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(judging_process, "_CLOSE_TIMEOUT_S", 0.1)
    made = JudgingProcess([sys.executable, "-c", "import signal; signal.pause()"])
    made.begin()
    assert len(list(tmp_path.iterdir())) == 1
    made.close()
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_does_not_answer_is_ended_and_the_error_has_its_last_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(judging_process, "_ANSWER_TIMEOUT_S", 0.5)
    silent = "import signal, sys; print('Java hangs', file=sys.stderr, flush=True); print('{', end='', flush=True); "
    judge = JudgingProcess([sys.executable, "-c", silent + "signal.pause()"])
    judge.begin()
    process = judge._process
    assert process is not None
    wait_until(lambda: "Java hangs" in judge._tail(), awaited="the process's words", timeout_s=30)
    with pytest.raises(WaitExpired, match=r"waited 0\.5 s for the verdict of .*one; last seen: Java hangs"):
        judge.judge(tmp_path / "one")
    assert process.poll() is not None


def test_a_command_that_does_not_exist_fails() -> None:
    with pytest.raises(HarnessError, match="the judging process does not start"):
        JudgingProcess(["/no/such/command"]).begin()


_SLOW = """
import sys
from pathlib import Path
from ebbtide.command import main
from ebbtide.waiting import pause
from harness.cli import analyze_stdin

def judge(records):
    with Path(FOLDER, "asked").open("a") as asked:
        print(records[0].name, file=asked)
    pause(3600)

analyze_stdin.JudgingSession.started = lambda *_: None
analyze_stdin.judge_together = lambda _session, records: judge(records)
sys.exit(main())
"""
_CALLER = """
import sys
from pathlib import Path
from ebbtide.judging_process import JudgingProcess

judge = JudgingProcess([sys.executable, sys.argv[1]])
judge.hand_over(Path("first"))
judge.hand_over(Path("second"))
print(judge._process.pid, flush=True)
judge.judge(Path("first"))
"""


def test_it_ends_at_once_and_judges_no_further_record_when_its_caller_is_killed(tmp_path: Path) -> None:
    slow = tmp_path / "slow.py"
    slow.write_text(f"FOLDER = {str(tmp_path)!r}\n{_SLOW}")
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    words = [sys.executable, "-c", _CALLER, str(slow)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=environment, cwd=Path(__file__).parents[3]) as caller:
        assert caller.stdout is not None
        orphan = psutil.Process(int(caller.stdout.readline()))
        wait_until((tmp_path / "asked").exists, awaited="a record that is being judged", timeout_s=60)
        caller.kill()
    _, left = psutil.wait_procs([orphan], timeout=20)
    for one in left:
        one.kill()
    assert left == []
    assert (tmp_path / "asked").read_text() == "first\n"


LINE = "judging for 20 s: 1 of 3 runs done, stage 2 of 7: summing up"


def test_a_line_says_since_when_the_records_that_are_done_and_the_stage() -> None:
    assert progress_line(20.4, 1, 3, "2 of 7: summing up") == LINE
    assert last_place(f"WARN of Spark\n{LINE}\nWARN of Spark\n") == "2 of 7: summing up"
    assert last_place("WARN of Spark\n") is None


def test_each_stage_is_printed_where_another_process_listens(capsys: pytest.CaptureFixture[str]) -> None:
    with Heartbeat(2, each_stage=True) as beat:
        beat.stage("reading")
        beat.report_judged()
        beat.stage("judging")
    assert capsys.readouterr().err.splitlines() == [
        "judging for 0 s: 0 of 2 runs done, stage 1 of 7: reading",
        "judging for 0 s: 1 of 2 runs done, stage 7 of 7: judging",
    ]


def test_only_whole_progress_lines_of_another_process_are_passed_on_and_each_once() -> None:
    said: list[str] = []
    listener = ProgressListener(said.append)
    begun = f"   1.0s  judging\n{LINE}\n{LINE[:-3]}"
    listener.hear(begun)
    listener.hear(begun)
    assert said == [LINE]
    listener.hear(f"{begun}ing\n")
    assert said == [LINE, f"{LINE[:-3]}ing"]
    for line in ("   1.0s  judging", LINE):
        listener.hear_line(line)
    assert said[2:] == [LINE]
