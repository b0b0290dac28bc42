"""The live view of a run: lanes, faults, steps and rates on a terminal; plain lines elsewhere."""

from __future__ import annotations

import io
import os
import pty
import re
import signal
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from checkout import ROOT
from rich.console import Console

from ebbtide.record.rows import PartitionState
from ebbtide.record.steps import StepEntry
from ebbtide.shown_console import PlainTextConsole
from ebbtide.signals import unwind_on_signals
from harness.runner.display import PlainDisplay
from harness.runner.live_view import REFRESH_PER_S, LiveDisplay, RunHistory, display_for, letter_of
from harness.runner.run_state import Awaited, RunState, step_states

HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"
ROW = PartitionState(
    metadata_offset=9,
    at_ns=None,
    topic="t",
    partition=0,
    leader=3,
    leader_epoch=2,
    partition_epoch=4,
    isr=[3],
    elr=[2],
    last_known_elr=[],
    replicas=[1, 2, 3],
    adding=[],
    removing=[],
    leader_recovery_state=0,
)
NAMES = {1: "broker-1", 2: "broker-2", 3: "broker-3", 100: "controller-100"}
ENTRIES = [
    StepEntry(index=0, step="partition", whom="broker-2 | broker-3", fired_ns=1, effect_ns=2),
    StepEntry(index=1, step="power-loss", nodes=(1,), fired_ns=3, effect_ns=4, healed_ns=9),
    StepEntry(index=2, step="start", parameters={"target": "step(loss)"}),
    StepEntry(index=3, step="heal"),
]
STATE = RunState(
    title="run-1",
    phase="steps",
    nodes={
        "broker-1": "down, fenced",
        "broker-2": "running, fenced",
        "broker-3": "running, unfenced",
        "controller-100": "running",
    },
    brokers={"broker-1": 1, "broker-2": 2, "broker-3": 3},
    partitions=(ROW,),
    high_watermarks={"t-0": 12_340},
    sends={"sent": 2_100, "acked": 2_000, "failed": 3, "unknown": 0},
    steps=tuple(step_states(ENTRIES, Awaited(2, "leader_is of t-0: broker none"), NAMES)),
    awaited=Awaited(2, "leader_is of t-0: broker none", "t-0 leader 3"),
)


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def terminal(width: int = 110) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=width, height=40, _environ={"TERM": "xterm"})


def written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def shown(state: RunState, *, width: int = 110, seconds: int = 1) -> list[str]:
    """The lines of the view after some seconds in this state, without styles."""
    console, clock = terminal(width), Clock()
    display = LiveDisplay(console, clock)
    for second in range(seconds):
        sends = {**state.sends, "acked": state.sends["acked"] + 500 * second}
        display.state(msgspec.structs.replace(state, sends=sends))
        clock.now_s += 1
    plain = Console(file=io.StringIO(), width=width, height=40)
    plain.print(display._render())
    return [line.rstrip() for line in written(plain).splitlines()]


def line_of(name: str, lines: list[str]) -> str:
    (found,) = [line for line in lines if line.split()[:1] == [name]]
    return found


def test_each_broker_has_a_lane_with_its_state_in_letters_and_in_words() -> None:
    lines = shown(STATE, seconds=5)
    for broker, letters, now in (
        ("broker-1", "xxxxx", "out of ISR; down, fenced"),
        ("broker-2", "EEEEE", "ELR; running, fenced"),
        ("broker-3", "LLLLL", "leader; running, unfenced"),
    ):
        assert re.fullmatch(rf"  {broker} +{letters} +{now}", line_of(broker, lines))
    assert line_of("controller-100", lines).endswith("running")
    assert "L leader" in " ".join(lines)
    assert "p paused" not in " ".join(lines)


@pytest.mark.parametrize(
    ("changes", "node", "letter"),
    [
        ({}, "running, unfenced", "E"),
        ({}, "paused, unfenced", "p"),
        ({}, "down", "x"),
        ({}, "not up", " "),
        ({"elr": []}, "running", "o"),
        ({"elr": [], "isr": [3, 2]}, "running", "I"),
        ({"elr": [], "last_known_elr": [2]}, "running", "K"),
        ({"replicas": [1, 3], "elr": []}, "running", "-"),
        ({"leader": 2}, "running", "L"),
        ({"leader": 2, "leader_recovery_state": 1}, "running", "R"),
    ],
)
def test_a_letter_stands_for_the_role_or_the_condition(changes: dict[str, Any], node: str, letter: str) -> None:
    state = msgspec.structs.replace(STATE, nodes={**STATE.nodes, "broker-2": node})
    assert letter_of(state, "broker-2", msgspec.structs.replace(ROW, **changes)) == letter


def test_the_faults_and_the_steps_say_what_goes_on_and_what_is_waited_for() -> None:
    lines = shown(STATE)
    assert line_of("fault", lines).split(maxsplit=1)[1] == "partition broker-2 | broker-3"
    assert line_of("steps", lines).endswith("2 of 4 carried out; the last: 1 power-loss broker-1")
    assert line_of("waiting", lines).split(maxsplit=1)[1] == (
        "2 start step(loss) waits for leader_is of t-0: broker none; now: t-0 leader 3"
    )
    assert "3 heal" in next(line for line in lines if line.startswith("  to come"))
    assert line_of("partition", lines).endswith("HW 12,340")


def test_the_acked_records_are_counted_a_second() -> None:
    acked = line_of("acked", shown(STATE, seconds=4))
    assert "500/s; 3,500 acked, 3 failed" in acked
    assert "██" in acked


def test_seconds_in_which_nobody_looked_are_blank() -> None:
    clock = Clock()
    history = RunHistory(clock)
    for at_s, acked in ((0, 0), (1, 100), (4, 400), (5, 500)):
        clock.now_s = 100.0 + at_s
        history.add(msgspec.structs.replace(STATE, sends={**STATE.sends, "acked": acked}))
    assert history.lane("broker-3", 80) == "LL  LL"
    assert history.acked_per_s(80) == [100, 100, 100, 100]


def test_a_long_run_shows_its_newest_seconds() -> None:
    clock = Clock()
    history = RunHistory(clock)
    for _ in range(400):
        history.add(STATE)
        clock.now_s += 1
    paused = msgspec.structs.replace(STATE, nodes={**STATE.nodes, "broker-3": "paused"})
    history.add(paused)
    assert history.lane("broker-3", 5) == "LLLLp"


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_is_wider_than_the_terminal_and_no_lane_takes_two(width: int) -> None:
    lines = shown(STATE, width=width, seconds=300)
    assert max(map(len, lines)) <= width
    lanes = [at for at, line in enumerate(lines) if line.split()[:1] == ["acked"]]
    assert lanes == [len(STATE.nodes) + 2]


def test_a_terminal_of_80_columns_cuts_nothing_off() -> None:
    awaited = Awaited(2, "broker_is: broker step(leader-loses-power), state unfenced or down", "running, fenced")
    row = msgspec.structs.replace(ROW, leader=-1, isr=[], elr=[1, 2], last_known_elr=[2])
    state = msgspec.structs.replace(STATE, awaited=awaited, partitions=(row,))
    lines = shown(state, width=80)
    assert not [line for line in lines if line.endswith("…")]
    waiting = lines.index(line_of("waiting", lines))
    said = [line[16:] for line in lines[waiting : waiting + 3] if line[:16].strip() in ("waiting", "")]
    assert " ".join(said) == f"2 start step(loss) waits for {awaited.what}; now: {awaited.seen}"
    assert "ELR, last known leader; running, fenced" in line_of("broker-2", lines)


def test_the_view_begins_before_there_is_a_partition() -> None:
    nothing = msgspec.structs.replace(
        STATE, phase="prepare", partitions=(), steps=(), awaited=None, nodes=dict.fromkeys(STATE.nodes, "not up")
    )
    lines = shown(nothing)
    assert lines[0].endswith("run-1: prepare, 1 s")
    assert line_of("broker-1", lines).endswith("not up")


def test_a_terminal_gets_the_view_and_everything_else_plain_lines() -> None:
    assert isinstance(display_for(terminal()), LiveDisplay)
    file = io.StringIO()
    with display_for(Console(file=file, width=40)) as display:
        assert type(display) is PlainDisplay
        display.state(STATE)
        display.note("a line that is longer than the forty columns of this console")
    said = " ".join(file.getvalue().split())
    assert re.fullmatch(r"\d\.\ds a line that is longer than the forty columns of this console", said)
    assert max(map(len, file.getvalue().splitlines())) <= 40


def test_the_view_is_redrawn_no_more_often_than_it_says_however_often_a_state_comes() -> None:
    console = terminal()
    display = LiveDisplay(console)
    drawn = 0
    render = display._render

    def counted() -> Any:
        nonlocal drawn
        drawn += 1
        return render()

    display._render = counted  # type: ignore[method-assign]
    display._live = display._new_live()
    with display:
        before = drawn
        for _ in range(2_000):
            display.state(STATE)
        assert drawn - before <= 2 * REFRESH_PER_S
    assert display._live.refresh_per_second == REFRESH_PER_S


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit, ValueError])
def test_whatever_ends_the_run_the_cursor_is_visible_again(end: type[BaseException]) -> None:
    console = terminal()

    def run_and_end() -> None:
        with LiveDisplay(console) as display:
            display.state(STATE)
            raise end

    with pytest.raises(end):
        run_and_end()
    assert written(console).count(HIDE) == 1
    assert written(console).rindex(SHOW) > written(console).index(HIDE)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_the_process_gives_the_terminal_back(number: signal.Signals) -> None:
    console = terminal()
    with unwind_on_signals(), pytest.raises(SystemExit), LiveDisplay(console):
        signal.raise_signal(number)
    assert written(console).rindex(SHOW) > written(console).index(HIDE)


def test_notes_stay_on_the_screen_and_the_view_does_not() -> None:
    console = terminal()
    with LiveDisplay(console) as display:
        display.state(STATE)
        display.note("t-0 leader 3")
    assert "t-0 leader 3" in written(console)
    # The last thing written erases the lines of the view.
    assert "\x1b[2K" in written(console).rpartition("t-0 leader 3")[2]


def test_a_hostile_text_does_nothing_to_the_terminal() -> None:
    console = PlainTextConsole(file=io.StringIO(), force_terminal=True, width=110, _environ={"TERM": "xterm"})
    hostile = "\x1b]0;owned\x07[bold]"
    with LiveDisplay(console) as display:
        display.state(msgspec.structs.replace(STATE, title=hostile, awaited=Awaited(2, hostile, hostile)))
        display.note(hostile)
    assert "\x1b]0;owned" not in written(console)
    assert "[bold]" in written(console)


def test_others_may_use_the_terminal_while_the_view_is_hidden() -> None:
    console = terminal()
    with LiveDisplay(console) as display:
        display.state(STATE)
        with display.hidden():
            assert not display._live.is_started
            assert written(console).rindex(SHOW) > written(console).rindex(HIDE)
        assert display._live.is_started


_WATCHER = """
import signal, sys
from rich.console import Console
from ebbtide.streams import ignore_closed_pipes
from harness.runner.live_view import display_for
from harness.runner.live_view import LiveDisplay

signal.signal(signal.SIGHUP, signal.SIG_IGN)
ignore_closed_pipes()
with display_for(Console()) as display:
    display.note("begun")
    sys.stdin.read(1)
    display.note("after the terminal is gone")
sys.exit(0 if isinstance(display, LiveDisplay) else 2)
"""


def test_a_terminal_that_goes_away_ends_no_run() -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", _WATCHER],
        cwd=ROOT,
        env={**os.environ, "TERM": "xterm"},
        stdin=subprocess.PIPE,
        stdout=theirs,
        stderr=subprocess.PIPE,
    ) as process:
        os.close(theirs)
        said = b""
        while b"begun" not in said and (part := _read(ours)):
            said += part
        os.close(ours)
        _, errors = process.communicate(b"x", timeout=60)
    assert (process.returncode, errors) == (0, b"")
    assert b"begun" in said


def _read(terminal: int) -> bytes:
    """Read from a terminal; nothing once nobody has it open."""
    try:
        return os.read(terminal, 1024)
    except OSError:
        return b""
