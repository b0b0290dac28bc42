"""The live view of a run, and the state that it shows, on a terminal; plain lines elsewhere."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
from checkout import ROOT
from rich.console import Console

from cluster.host.bridge import address_of
from cluster.runtime.properties import plan_cluster
from ebbtide.record.files import RecordFolder
from ebbtide.record.rows import PartitionState
from ebbtide.record.steps import StepEntry
from ebbtide.scenario import catalogue
from ebbtide.shown_console import PlainTextConsole
from harness.runner import session
from harness.runner.display import Awaited, PlainDisplay, RunState, step_states
from harness.runner.live_view import LiveDisplay, display_for, letter_of
from harness.runner.session import Draws
from workloads.send_account import SendCounts

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
    replicas=[1, 2, 3],
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


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_is_wider_than_the_terminal_and_no_lane_takes_two(width: int) -> None:
    lines = shown(STATE, width=width, seconds=300)
    assert max(map(len, lines)) <= width
    lanes = [at for at, line in enumerate(lines) if line.split()[:1] == ["acked"]]
    assert lanes == [len(STATE.nodes) + 2]


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


def test_a_hostile_text_does_nothing_to_the_terminal() -> None:
    console = PlainTextConsole(file=io.StringIO(), force_terminal=True, width=110, _environ={"TERM": "xterm"})
    hostile = "\x1b]0;owned\x07[bold]"
    with LiveDisplay(console) as display:
        display.state(msgspec.structs.replace(STATE, title=hostile, awaited=Awaited(2, hostile, hostile)))
        display.note(hostile)
    assert "\x1b]0;owned" not in written(console)
    assert "[bold]" in written(console)


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


# The state of a run for a display comes from the entries of the steps and from what they wait for.


@pytest.mark.parametrize(
    ("entry", "status"),
    [
        ({}, "to come"),
        ({"why": "it never fired"}, "left out"),
        ({"fired_ns": 1, "effect_ns": 2}, "in force"),
        ({"fired_ns": 1, "effect_ns": 2, "healed_ns": 3}, "done"),
        ({"step": "start", "fired_ns": 1, "effect_ns": 2}, "done"),
        ({"step": "start", "fired_ns": 1, "why": "no proof"}, "no proof"),
    ],
)
def test_a_step_says_how_far_it_is(entry: dict[str, Any], status: str) -> None:
    (state,) = step_states([StepEntry(**{"index": 0, "step": "pause", **entry})], None, {})
    assert state.status == status


def test_only_the_step_that_waits_is_waiting() -> None:
    entries = [StepEntry(index=at, step="kill") for at in range(2)]
    assert [one.status for one in step_states(entries, Awaited(0, "acked 5"), {})] == ["waiting", "to come"]


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ({"parameters": {"target": "leader(t-0)", "name": "loss"}}, "kill leader(t-0)"),
        ({"parameters": {"name": "loss"}}, "kill loss"),
        ({"nodes": (1, 7), "parameters": {"target": "isr(t-0)"}}, "kill broker-1, 7"),
        ({"nodes": (1,), "whom": "broker-1 > broker-2"}, "kill broker-1 > broker-2"),
    ],
)
def test_a_step_is_named_by_what_it_acts_on_or_will_act_on(entry: dict[str, Any], text: str) -> None:
    (state,) = step_states([StepEntry(**{"index": 0, "step": "kill", **entry})], None, {1: "broker-1"})
    assert state.text == text


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[session.Session, Mock, Mock]:
    """A session that watches, its display, and its clock."""
    counts = SendCounts(handed=5, acked=4, failed=1, unknown=0)
    workload = Mock(**{"send_counts.return_value": counts})
    monkeypatch.setattr(session, "Workload", lambda **_: workload)
    clock = Mock(**{"monotonic.return_value": 1_000.0})
    monkeypatch.setattr(session, "time", clock)
    scenario = msgspec.structs.replace(catalogue.find("healthy"), kafka=("4.3.1",))
    nodes = plan_cluster(scenario.cluster, address_of).nodes
    runtime = Mock(nodes=nodes, **{"data_dir.side_effect": lambda node: tmp_path / str(node)})
    display = Mock()
    return (
        session.Session(scenario, Draws(assignments={}), runtime, "run-1", RecordFolder(tmp_path), display),
        display,
        clock,
    )


def test_a_new_phase_is_shown_at_once(watched: tuple[session.Session, Mock, Mock]) -> None:
    made, display, _ = watched
    made.watch()
    with made.time_phase("settle"):
        state = display.state.call_args.args[0]
    assert (state.title, state.phase) == ("run-1", "settle")
    assert state.sends == {"sent": 5, "acked": 4, "failed": 1, "unknown": 0}
    assert set(state.brokers) == {name for name in state.nodes if name.startswith("broker-")}
    assert [step.status for step in state.steps] == ["to come"] * len(made.scenario.steps)


def test_others_may_use_the_terminal_while_the_view_is_hidden() -> None:
    console = terminal()
    with LiveDisplay(console) as display:
        display.state(STATE)
        with display.hidden():
            assert not display._live.is_started
            assert written(console).rindex(SHOW) > written(console).rindex(HIDE)
        assert display._live.is_started
