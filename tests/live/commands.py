"""The `ebbtide` command as a user types it: run to its end, or watched and killed in the middle."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

from host_turn import HOST

from ebbtide.waiting import wait_until

LOCAL = ("--runtime", "local")
"""Of what runs a cluster and asks for no runtime: tests must not depend on whether a Docker daemon is there."""

EBBTIDE = (sys.executable, "-m", "ebbtide")


def command(*arguments: str | Path) -> list[str]:
    """The words that run `ebbtide ARGUMENTS`."""
    words = [str(argument) for argument in arguments]
    return [*EBBTIDE, *words, *(LOCAL if words[:1] == ["run"] and "--runtime" not in words else ())]


def ebbtide(
    *arguments: str | Path, timeout_s: float = 600.0, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end; never raises for its exit code. `run` takes the local runtime unless told."""
    return run_to_end(command(*arguments), timeout_s=timeout_s, env={**os.environ, **(env or {})})


def run_to_end(
    words: Sequence[str], *, timeout_s: float, env: Mapping[str, str], folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command in `folder`; once it only judges, other tests have the host."""
    if "analyze" in words:
        HOST.lend()
    else:
        # The command before it may have lent the host while it judged.
        HOST.take_back()
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, cwd=folder)
    with process, ThreadPoolExecutor(2) as readers:
        assert process.stdout is not None
        assert process.stderr is not None
        said = [readers.submit(_read, stream) for stream in (process.stdout, process.stderr)]
        try:
            process.wait(timeout_s)
        finally:
            process.kill()
        return subprocess.CompletedProcess(words, process.returncode, *(one.result() for one in said))


_JUDGES = re.compile(r"^ *[\d.]+s  judging\b", re.MULTILINE)
"""A command that runs clusters says so when it has taken its last one down."""


def _read(stream: IO[str]) -> str:
    """All that comes out of a command."""
    lines = []
    for line in stream:
        if _JUDGES.match(line):
            HOST.lend()
        lines.append(line)
    return "".join(lines)


def records_in(runs: Path) -> list[Path]:
    """The run records under `runs`, oldest first."""
    folders = [path for path in runs.iterdir() if path.is_dir()] if runs.is_dir() else []
    return sorted(folders, key=lambda record: record.stat().st_mtime_ns)


class WatchedCommand:
    """A command whose output is watched, so that it can be sent a signal at a chosen moment."""

    def __init__(self, output: Path, *arguments: str | Path) -> None:
        self._output = output
        HOST.take_back()
        with output.open("wb") as file:
            self.process = subprocess.Popen(command(*arguments), stdout=file, stderr=subprocess.STDOUT)

    def text(self) -> str:
        """What it has said so far."""
        return self._output.read_text(errors="replace")

    def signal_once_it_says(self, words: str, number: signal.Signals, timeout_s: float = 300.0) -> int:
        """Send a signal when `words` stand in the output; returns the exit status."""
        return self.once_it_says(words, lambda: self.process.send_signal(number), timeout_s)

    def once_it_says(self, words: str, act: Callable[[], None], timeout_s: float = 300.0) -> int:
        """Do something when `words` stand in the output; returns the exit status."""

        def is_printed() -> bool:
            assert self.process.poll() is None, f"ended before it said {words!r}:\n{self.text()}"
            return words in self.text()

        try:
            wait_until(is_printed, awaited=f"{words!r}", timeout_s=timeout_s, last_seen=self.text)
            act()
            end = "the end of the command"
            wait_until(self._has_ended, awaited=end, timeout_s=180, last_seen=self.text, poll_s=0.1)
            return self.process.wait()
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()

    def _has_ended(self) -> bool:
        """Whether it has ended; once it only judges, other tests have the host."""
        if _JUDGES.search(self.text()):
            HOST.lend()
        return self.process.poll() is not None
