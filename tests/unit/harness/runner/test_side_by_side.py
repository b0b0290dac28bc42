"""Runs in processes of their own: how many at once, what comes back, and how they end."""

from __future__ import annotations

import os
import pickle
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from unittest.mock import Mock

import msgspec
import pytest
from plain_steps import step_of

from cluster.clean import CleanOutcome
from cluster.host.writeback import TURN_TIMEOUT_S
from ebbtide.errors import EbbtideError, HarnessError, Problems, UsageError
from ebbtide.scenario import catalogue
from ebbtide.scenario.words import Duration
from ebbtide.waiting import WaitExpired, wait_until
from harness.runner import side_by_side
from harness.runner.display import Display
from harness.runner.gates import Gate
from harness.runner.run import RunRequest
from harness.runner.side_by_side import limit_s, run_side_by_side

DEADLINE_S = 30.0
LIMIT_S = 0.5


def requests(folder: Path, *seeds: int) -> Iterator[tuple[int, RunRequest | EbbtideError]]:
    for seed in seeds:
        yield seed, RunRequest(scenario=catalogue.find("healthy"), kafka="4.3.1", seed=seed, runs=folder)


def meet(request: RunRequest, display: Display) -> Path:
    """Ends once another run is under way too, and says how many were."""
    mine = request.runs / f"{request.seed}.running"
    mine.touch()
    display.note(f"seed {request.seed}")
    met = request.runs / "met"
    wait_until(
        lambda: met.exists() or len(list(request.runs.glob("*.running"))) > 1, awaited="company", timeout_s=DEADLINE_S
    )
    met.touch()
    (request.runs / f"{request.seed}.saw").write_text(str(len(list(request.runs.glob("*.running")))))
    mine.unlink()
    return request.runs / str(request.seed)


def fail(request: RunRequest, display: Display) -> Path:
    raise HarnessError("no space", where="the disk", next="ebbtide clean")


def break_down(request: RunRequest, display: Display) -> Path:
    raise KeyError("no such key")


def wait_for_end(request: RunRequest, display: Display) -> Path:
    """Ends only when it is told to, and leaves a trace of having cleaned up."""
    try:
        (request.runs / "up").touch()
        wait_until(lambda: False, awaited="the end", timeout_s=2 * DEADLINE_S)
    finally:
        display.note("cleaning up")
        (request.runs / "cleaned").touch()
    return request.runs


def hang(request: RunRequest, display: Display) -> Path:
    """Does not end, whatever it is told, but where it is killed."""
    display.note("waiting for what never comes")
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return wait_for_end(request, display)


def answer_and_hang(request: RunRequest, display: Display) -> Path:
    """Carried out, but its process does not end."""
    Thread(target=hang, args=(request, display)).start()
    return request.runs


def test_two_run_at_once_and_never_three_and_their_lines_are_shown_as_they_come(tmp_path: Path) -> None:
    log = tmp_path / "log"
    shown: list[tuple[int, str]] = []
    ran = dict(
        run_side_by_side(
            requests(tmp_path, 1, 2, 3),
            at_once=2,
            log=log,
            carry_out=meet,
            on_note=lambda *one: shown.append(one),
        )
    )
    assert sorted(shown) == [(seed, f"seed {seed}") for seed in (1, 2, 3)]
    assert ran == {seed: tmp_path / str(seed) for seed in (1, 2, 3)}
    assert max(int(saw.read_text()) for saw in tmp_path.glob("*.saw")) == 2
    assert re.search(r"healthy on 4\.3\.1 \(process \d+\): seed 3\n", log.read_text())


def test_no_more_is_asked_for_than_there_is_room_for_and_a_failure_comes_back_in_its_own_words(tmp_path: Path) -> None:
    asked = []

    def noted_requests() -> Iterator[tuple[int, RunRequest | EbbtideError]]:
        for seed, request in requests(tmp_path, 1, 2, 3):
            asked.append(seed)
            yield seed, request

    ran = run_side_by_side(noted_requests(), at_once=1, log=tmp_path / "log", carry_out=fail)
    _, end = next(ran)
    assert asked == [1]
    ran.close()
    assert isinstance(end, HarnessError)
    assert (end.what, end.where, end.next) == ("no space", "the disk", "ebbtide clean")


@pytest.mark.parametrize(
    "error", [WaitExpired("a leader", 3.0, "none"), Problems("a.toml", [UsageError("no topic", where="topics")])]
)
def test_an_error_of_any_kind_comes_out_of_a_pipe_as_it_went_in(error: EbbtideError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.what) == (type(error), str(error), error.what)
    assert {key: str(value) for key, value in vars(again).items()} == {
        key: str(value) for key, value in vars(error).items()
    }


def test_a_bug_is_named_and_its_traceback_is_in_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    [(_, end)] = run_side_by_side(requests(tmp_path, 1), at_once=1, log=log, carry_out=break_down)
    assert isinstance(end, HarnessError)
    assert "KeyError: 'no such key'" in end.what
    assert end.where == str(log)
    assert "in break_down" in log.read_text()


def test_a_request_that_could_not_be_made_comes_back_as_it_is(tmp_path: Path) -> None:
    error = HarnessError("no image")
    assert list(run_side_by_side([(1, error)], at_once=1, log=tmp_path / "log")) == [(1, error)]


def until_up(folder: Path) -> Iterator[tuple[int, RunRequest | EbbtideError]]:
    """One run, and no more is asked about it before it is under way."""
    yield from requests(folder, 1)
    wait_until((folder / "up").exists, awaited="the run", timeout_s=DEADLINE_S)


def interrupted_requests(folder: Path) -> Iterator[tuple[int, RunRequest | EbbtideError]]:
    yield from until_up(folder)
    raise KeyboardInterrupt


def test_a_run_that_takes_longer_than_it_can_take_is_ended_and_cleans_up(tmp_path: Path) -> None:
    log = tmp_path / "log"
    ran = run_side_by_side(until_up(tmp_path), at_once=2, log=log, carry_out=wait_for_end, limit=lambda _: LIMIT_S)
    [(key, end)] = ran
    assert key == 1
    assert isinstance(end, HarnessError)
    assert end.what == f"the run did not end in {LIMIT_S:g} s and was ended: healthy on 4.3.1"
    assert end.where == str(log)
    assert (tmp_path / "cleaned").exists()


def test_one_that_hangs_while_it_cleans_up_is_killed_and_what_it_left_is_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = CleanOutcome(run_id="healthy-1", undone=("a namespace",), failed=("a mount: busy",))
    monkeypatch.setattr(side_by_side, "clean", lambda: [left])
    monkeypatch.setattr(side_by_side, "END_TIMEOUT_S", 1.0)
    log = tmp_path / "log"
    ran = run_side_by_side(until_up(tmp_path), at_once=2, log=log, carry_out=hang, limit=lambda _: LIMIT_S)
    [(_, end)] = ran
    assert isinstance(end, HarnessError)
    assert str(end.got).endswith("waiting for what never comes")
    assert not (tmp_path / "cleaned").exists()
    said = log.read_text()
    assert "did not clean up in 1 s: killed\n" in said
    assert "\ncleaned up after healthy-1: a namespace\nnot cleaned up after healthy-1: a mount: busy\n" in said


def test_a_run_that_answered_counts_though_its_process_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "clean", list)
    monkeypatch.setattr(side_by_side, "END_TIMEOUT_S", 1.0)
    ran = run_side_by_side(requests(tmp_path, 1), at_once=1, log=tmp_path / "log", carry_out=answer_and_hang)
    assert list(ran) == [(1, tmp_path)]


def test_every_wait_of_a_run_fits_into_its_limit(tmp_path: Path) -> None:
    healthy = catalogue.find("healthy")
    none = msgspec.structs.replace(healthy, steps=())
    limits = []
    for step in (
        step_of("kill", target="broker(1)", deadline_s=4000.0),
        step_of("rolling", mode="kill", deadline_s=1000.0),
        step_of("upgrade", to="4.4.0", deadline_s=1000.0),
        step_of("delete-topic", topic="t", deadline_s=1000.0),
        step_of("flap", groups=[["broker(1)"], ["clients"]], times=50, period=Duration("40s")),
    ):
        scenario = msgspec.structs.replace(none, steps=(step,))
        limits.append(limit_s(RunRequest(scenario=scenario, kafka="4.3.1", seed=1, runs=tmp_path)))
    alone_s = limit_s(RunRequest(scenario=none, kafka="4.3.1", seed=1, runs=tmp_path))
    # The trigger; each of three brokers ready, and its ISR whole; the answer, and its record; each time down and up.
    assert all(
        most_s - alone_s >= least_s for most_s, least_s in zip(limits, (4000, 7000, 7000, 3000, 4000), strict=True)
    )
    slow = msgspec.structs.replace(none, settle_s=1000.0)
    assert limit_s(RunRequest(scenario=slow, kafka="4.3.1", seed=1, runs=tmp_path)) > 3000
    gated = RunRequest(scenario=scenario, kafka="4.3.1", seed=1, runs=tmp_path, gates={0: Gate(patience_s=500.0)})
    assert limit_s(gated) == limits[-1] + 500


def test_no_scenario_of_the_catalogue_may_hang_for_an_hour_once_it_has_the_write_back_it_wants(tmp_path: Path) -> None:
    for name in catalogue.names():
        request = RunRequest(scenario=catalogue.find(name), kafka="4.3.1", seed=1, runs=tmp_path)
        assert 900 < limit_s(request) < 3600 + TURN_TIMEOUT_S, name


@pytest.mark.parametrize(("number", "shows"), [(signal.SIGKILL, ""), (signal.SIGTERM, "shown")])
def test_one_whose_parent_was_ended_cleans_up(tmp_path: Path, number: signal.Signals, shows: str) -> None:
    program = (
        "import sys; from pathlib import Path; import test_side_by_side as t; folder = Path(sys.argv[1])\n"
        "if __name__ == '__main__':\n"
        "    shown = {'on_note': lambda *_: None} if sys.argv[2] else {}\n"
        "    list(t.run_side_by_side(t.requests(folder, 1), at_once=1, log=folder / 'log', carry_out=t.wait_for_end,"
        " **shown))\n"
    )
    main = tmp_path / "main.py"
    main.write_text(program)
    path = os.pathsep.join(str(one) for one in sys.path)
    with subprocess.Popen([sys.executable, main, tmp_path, shows], env={**os.environ, "PYTHONPATH": path}) as parent:
        wait_until((tmp_path / "up").exists, awaited="the run", timeout_s=DEADLINE_S)
        parent.send_signal(number)
    if number != signal.SIGKILL:
        assert (tmp_path / "cleaned").exists(), "the parent did not wait"
    wait_until((tmp_path / "cleaned").exists, awaited="the run to clean up", timeout_s=DEADLINE_S)


def exit_at_once(request: RunRequest, display: Display) -> Path:
    os._exit(3)


def test_a_process_that_ends_without_a_word_is_a_failure(tmp_path: Path) -> None:
    [(_, end)] = run_side_by_side(requests(tmp_path, 1), at_once=1, log=tmp_path / "log", carry_out=exit_at_once)
    assert isinstance(end, HarnessError)
    assert "ended without a result" in end.what


def test_one_that_is_left_cleans_up_first_though_the_terminal_is_gone(tmp_path: Path) -> None:
    ran = run_side_by_side(
        interrupted_requests(tmp_path),
        at_once=2,
        log=tmp_path / "log",
        carry_out=wait_for_end,
        on_note=Mock(side_effect=OSError("no terminal")),
    )
    with pytest.raises(KeyboardInterrupt):
        list(ran)
    assert (tmp_path / "cleaned").exists()
