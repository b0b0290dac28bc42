"""Runs a command on a pseudo-terminal, and keeps what a person sees: the screen and what scrolled off it."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pyte

from ebbtide.waiting import is_readable

Size = tuple[int, int]
SIZES: tuple[Size, ...] = ((80, 24), (100, 40), (160, 50))
"""Columns and rows."""
CTRL_C = b"\x03"
ENVIRONMENT = {"TERM": "xterm-256color", "PYTHONUTF8": "1"}
LEFT_OUT = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")
_HISTORY = 20_000
_PTY_BYTES = 4095
"""What the kernel holds: the rest of a longer frame comes with the next read."""
_FRAME_S = 0.01
"""Nobody sees what stands there for a shorter time."""
_CODE_AS_TEXT = re.compile(r"\\u00[0-9a-f]{2}|\[[0-9;?]+[A-KhlmJ]")
"""An escape code that was printed instead of obeyed."""
FOREIGN = r"\u001b[2Jfrom outside"
"""What must be seen of an escape code in somebody else's text."""


class Seen(NamedTuple):
    """What stood on the terminal in the end, scrolled off lines first, and on each look meanwhile."""

    code: int
    lines: list[str]
    screens: list[list[str]]
    drawn: str
    """Everything that was written, with its escape codes."""

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


Starter = Callable[[Sequence[str], Path, int], Callable[[float], int]]
"""Starts a command in a folder on a terminal (its file descriptor); what it returns waits for its exit code."""


def start_process(command: Sequence[str], cwd: Path, terminal: int) -> Callable[[float], int]:
    """Start any command; a `Starter`."""
    environment = {name: value for name, value in os.environ.items() if name not in LEFT_OUT}
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env={**environment, **ENVIRONMENT},
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    return process.wait


class FakeCommands:
    """Starts `ebbtide` with made-up clusters and judgements (terminal_command.py), from one process that has all
    modules loaded.
    """

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket = ours
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("terminal_command.py")), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            )

    def start(self, command: Sequence[str], cwd: Path, terminal: int, *, holds: bool = False) -> Callable[[float], int]:
        """Start a command; a `Starter`. With `holds` it stops in the middle, until it is interrupted."""
        socket.send_fds(self._socket, [json.dumps([holds, str(cwd), *command]).encode()], [terminal])

        def wait(timeout_s: float) -> int:
            self._socket.settimeout(timeout_s)
            return int(self._socket.recv(16))

        return wait

    def close(self) -> None:
        """End the process."""
        self._socket.close()
        self._process.wait(30)


def run_on_terminal(
    start: Starter,
    command: Sequence[str],
    size: Size,
    cwd: Path,
    *,
    type_at: Sequence[tuple[str, bytes]] = (),
    timeout_s: float = 120.0,
) -> Seen:
    """Run a command on a new terminal to its end; type keys once a text stands on the screen, one after another."""
    columns, rows = size
    screen = pyte.HistoryScreen(columns, rows, history=_HISTORY, ratio=0.5)
    stream = pyte.ByteStream(screen)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    deadline = time.monotonic() + timeout_s
    wait = start(command, cwd, theirs)
    os.close(theirs)
    screens: list[list[str]] = []
    drawn = bytearray()
    to_type = [*type_at]
    try:
        while is_readable(ours, max(0.0, deadline - time.monotonic())):
            try:
                data = os.read(ours, 1 << 16)
            except OSError:  # EIO: nobody has the terminal open any more
                break
            stream.feed(data)
            drawn += data
            if len(data) >= _PTY_BYTES or is_readable(ours, _FRAME_S):  # in the middle of a frame
                continue
            screens.append([line.rstrip() for line in screen.display])
            if to_type and to_type[0][0] in "\n".join(screens[-1]):
                os.write(ours, to_type.pop(0)[1])
        code = wait(max(1.0, deadline - time.monotonic()))
    finally:
        os.close(ours)
    history = ["".join(line[at].data for at in range(columns)) for line in screen.history.top]
    return Seen(code, [line.rstrip() for line in [*history, *screen.display]], screens, drawn.decode(errors="replace"))


def codes_as_text(seen: Seen) -> list[str]:
    """Return the lines that show an escape code as text, except for the one in `FOREIGN`."""
    shown = {line for screen in [*seen.screens, seen.lines] for line in screen}
    return sorted(line for line in shown if _CODE_AS_TEXT.search(line.replace(FOREIGN, "")))


def times_shown(lines: Sequence[str], text: str) -> int:
    """Return how often a text stands in these lines, also where the terminal or a fold broke it."""
    joined = re.sub(r"\s+", "", "".join(lines))
    return joined.count(re.sub(r"\s+", "", text))
