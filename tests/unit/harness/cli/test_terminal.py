"""What a person sees of each command with a view, and of an analysis, on terminals of three sizes."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from checkout import DATA
from terminal import (
    CTRL_C,
    FOREIGN,
    SIZES,
    FakeCommands,
    Seen,
    Size,
    codes_as_text,
    run_on_terminal,
    start_process,
    times_shown,
)
from terminal_command import LONG_NOTE

COMMANDS = {
    "run": "run last-replica-standing --kafka 3.9.1",
    "run at once": "run last-replica-standing --kafka 3.9.1,4.3.1 --jobs 2",
    "analyze": "analyze r0 r1 r2",
    "spec check": "spec check --variant elr-43 --bounds power-losses=1",
}
VIEWS = {"run": "a letter a second"}
"""A text of each view that is redrawn in place."""
ONCE = {
    "run": ("note 0 of this run", "note 15 of this run", LONG_NOTE, FOREIGN, "from outside on stderr", "outcome"),
    "run at once": ("Kafka 3.9.1: note 9 of this run", "Kafka 4.3.1: note 0 of this run", "comparison:"),
    "analyze": ("judging 3 runs", FOREIGN, "report: r0/report.html", "report: r2/report.html"),
    "spec check": ("property:", "searched:", "result:"),
}
"""Lines that stand there in the end, each once."""
INTERRUPT_AT = {
    "run": "note 5 of this run",
    "run at once": "Kafka 4.3.1: note 3 of this run",
    "analyze": "judging 3 runs",
    "spec check": "bounds:",
}
LONG_SEARCH = "spec check --variant elr-43 --bounds power-losses=1,kills=4,stops=4,records=4,brokers=5"


@pytest.fixture(scope="module")
def commands() -> Iterator[FakeCommands]:
    commands = FakeCommands()
    yield commands
    commands.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with three judged records."""
    for at, kafka in enumerate(("3.9.1", "4.3.1", "4.3.1")):
        shutil.copytree(DATA / "runs" / f"last-replica-standing-{kafka}", tmp_path / f"r{at}")
    return tmp_path


def check_seen(seen: Seen, name: str) -> None:
    """No code as text, and one view that stays in its place and is gone in the end."""
    assert codes_as_text(seen) == []
    view = VIEWS.get(name)
    if view is None:
        return
    assert view in seen.drawn
    assert max(sum(view in line for line in screen) for screen in seen.screens) <= 1
    assert not any(view in line for line in seen.lines)


@pytest.mark.parametrize(
    ("name", "size"), [*((name, SIZES[0]) for name in COMMANDS), *(("run", size) for size in SIZES[1:])]
)
def test_a_command_shows_one_view_in_its_place_and_each_finished_line_once(
    commands: FakeCommands, folder: Path, name: str, size: Size
) -> None:
    seen = run_on_terminal(commands.start, COMMANDS[name].split(), size, folder)
    check_seen(seen, name)
    for line in ONCE[name]:
        assert times_shown(seen.lines, line) == 1, seen.text
    words = [word for line in seen.lines for word in line.split() if len(line) == size[0]]
    assert not [word for word in words if re.fullmatch(r"[a-z]+", word) and word not in seen.text.split()]


@pytest.mark.parametrize("name", ["run", "run at once", "analyze", "spec check"])
def test_ctrl_c_in_the_middle_leaves_a_clean_screen(commands: FakeCommands, folder: Path, name: str) -> None:
    command = LONG_SEARCH if name == "spec check" else COMMANDS[name]
    start = partial(commands.start, holds=True)
    seen = run_on_terminal(start, command.split(), (80, 24), folder, type_at=[(INTERRUPT_AT[name], CTRL_C)])
    assert seen.code not in (0, 1, 2), seen.text
    assert codes_as_text(seen) == []
    if name in VIEWS:
        assert not [line for line in seen.lines if VIEWS[name] in line]
    assert "Traceback" not in seen.text


def test_typed_keys_do_not_move_the_view(commands: FakeCommands, folder: Path) -> None:
    keys = [(INTERRUPT_AT["run"], b"pressed\n\n\n")]
    seen = run_on_terminal(commands.start, COMMANDS["run"].split(), (80, 24), folder, type_at=keys)
    check_seen(seen, "run")
    assert "pressed" not in seen.text


CLEANS_UP_SLOWLY = """
import sys, threading
from ebbtide.shown_console import PlainTextConsole, new_view
from ebbtide.signals import interrupt_on_signals
interrupt_on_signals(3)
with new_view(PlainTextConsole(), "the view\\nof two lines"):
    try:
        print("going")
        threading.Event().wait(60)
    finally:
        print("cleaning up")
        sys.stdin.readline()
"""


def test_a_second_ctrl_c_is_answered_above_the_view(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CLEANS_UP_SLOWLY]
    answer = "still cleaning up; to end at once: kill -9, then ebbtide clean"
    keys = [("going", CTRL_C), ("cleaning up", CTRL_C), (answer, CTRL_C), (f"{answer}\n{answer}", b"\n")]
    seen = run_on_terminal(start_process, command, (80, 24), tmp_path, type_at=keys)
    assert times_shown(seen.lines, answer) == 2, seen.text
    assert max(sum("the view" in line for line in screen) for screen in seen.screens) == 1
    assert "the view" not in seen.text
