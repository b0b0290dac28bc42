"""The watch of a test's own cluster, with a stand-in for the command."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest
from fake_runner import ENDS, write_record

from ebbtide.pytest_plugin import watching
from ebbtide.pytest_plugin.run_record import CommandFailed
from ebbtide.pytest_plugin.watching import Watch, describe_unknown_settings, start_watch

COMMAND = """
import signal, sys, time
from pathlib import Path

if {ignores_sigterm!r}:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
words = sys.argv[1:]
folder = Path({folder!r})
with (folder / "said").open("a") as file:
    file.write(" ".join(words) + "\\n")
if words[1] == "end":
    (folder / "end").touch()
elif words[1] != "mark":
    workload = Path(words[-1])
    (folder / "workload").write_text(workload.read_text())
    if {refuses!r}:
        print("error:", workload, end=": no broker answers\\n")
        print("  where:   topics.t (line 3)")
        print("  next:    ebbtide scenarios check", workload)
        sys.exit(4)
    print("   0.1s  watch the-run", flush=True)
    print("   0.2s  watching for 3600 s; to note", flush=True)
    while not (folder / "end").exists():
        time.sleep(0.01)
    sys.exit({code})
"""


def stand_in(folder: Path, *, refuses: bool = False, code: int = 0, ignores_sigterm: bool = False) -> tuple[str, ...]:
    script = folder / "command.py"
    text = COMMAND.format(folder=str(folder), refuses=refuses, code=code, ignores_sigterm=ignores_sigterm)
    script.write_text(text)
    return (sys.executable, str(script))


def started(folder: Path, *, code: int = 0, ignores_sigterm: bool = False, **settings: object) -> Watch:
    command = stand_in(folder, code=code, ignores_sigterm=ignores_sigterm)
    return start_watch("b:9092", runs=folder, command=command, **settings)  # type: ignore[arg-type]


def said(folder: Path) -> list[str]:
    return (folder / "said").read_text().splitlines()


def test_marks_reach_the_watch_and_its_judged_record_is_returned(tmp_path: Path) -> None:
    watch = started(tmp_path, controllers="c:9093", kafka="4.3.1")
    watch.mark("rolled broker 1")
    write_record(tmp_path / "the-run", "4.3.1", 1, ENDS["holds"])
    run = watch.finish()
    watch.close()
    assert run.outcome == "as-predicted"
    begun, mark, end = said(tmp_path)
    assert "--bootstrap b:9092" in begun
    assert "--controllers c:9093 --kafka 4.3.1" in begun
    assert mark == f"watch mark rolled broker 1 --runs {tmp_path / 'the-run'}"
    assert end.startswith("watch end")


def test_without_a_workload_no_committed_loss_is_promised(tmp_path: Path) -> None:
    started(tmp_path, partitions=4).close()
    workload = (tmp_path / "workload").read_text()
    assert "partitions = 4" in workload
    assert 'committed = "none"' in workload


def test_a_setting_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="replicas"):
        started(tmp_path, replicas=3)


def test_a_watch_that_does_not_end_in_time_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "CLOSE_TIMEOUT_S", 0.01)
    watch = started(tmp_path, ignores_sigterm=True)
    watch.close()
    assert watch._process.returncode == -signal.SIGKILL


def test_a_cluster_that_cannot_be_watched_is_a_mistake_of_the_test(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="no broker answers") as caught:
        start_watch("b:9092", runs=tmp_path, command=stand_in(tmp_path, refuses=True))
    assert caught.value.mistake


def test_the_error_of_a_watch_names_no_file_that_the_test_has_not_given(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed) as caught:
        start_watch("b:9092", runs=tmp_path, command=stand_in(tmp_path, refuses=True))
    assert str(caught.value).splitlines() == ["error: kafka_watch: no broker answers", "  where:   topics.t"]
    file = tmp_path / "mine.toml"
    file.touch()
    with pytest.raises(CommandFailed) as caught:
        start_watch("b:9092", runs=tmp_path, command=stand_in(tmp_path, refuses=True), workload=file)
    assert str(caught.value).splitlines()[1:] == [
        "  where:   topics.t (line 3)",
        f"  next:    ebbtide scenarios check {file}",
    ]


def test_a_misspelt_keyword_of_a_watch_says_which_was_meant() -> None:
    assert describe_unknown_settings(["partitions", "at_most"]) is None
    told = describe_unknown_settings(["partitons"])
    assert told is not None
    assert "command," not in told
    assert told.endswith("; got partitons (did you mean 'partitions'?)")


def test_a_watch_that_failed_is_the_harness_failing(tmp_path: Path) -> None:
    watch = started(tmp_path, code=3)
    with pytest.raises(CommandFailed, match="watching for"):
        watch.finish()
    watch.close()


def test_the_default_workload_is_one_that_a_watch_takes(tmp_path: Path) -> None:
    from harness.watch.plan import read_workload

    started(tmp_path).close()
    path = tmp_path / "watch.toml"
    path.write_text((tmp_path / "workload").read_text())
    assert read_workload(path) is not None
