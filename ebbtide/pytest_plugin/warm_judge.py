"""A process that judges all records of a pytest session.

It is `ebbtide analyze -`. It starts beside the first cluster, so that no verdict waits for Spark's start. It outlives
the end of its Java process; if it ends itself, another one judges the record.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ebbtide.command import COMMAND
from ebbtide.pytest_plugin.command_failed import CommandFailed
from ebbtide.scratch import PYTEST, scratch_folder

_NICER_BY = 5
"""Clusters are first to get a core: their delays would show in the records."""
_TAIL_LINES = 20
_CLOSE_TIMEOUT_S = 600.0
"""The first session on a host writes its class archive as it ends (analysis.reconcile.session)."""


class WarmJudge:
    """The judging process of a session: `begin` starts it, `judge` uses it, and `close` ends it."""

    def __init__(self, command: Sequence[str] = COMMAND) -> None:
        self._command = tuple(command)
        self._process: subprocess.Popen[str] | None = None
        self._log: Path | None = None
        self._files = contextlib.ExitStack()

    def begin(self) -> None:
        """Start the process if none runs, and return at once. Raises `CommandFailed`."""
        if self._process is not None and self._process.poll() is None:
            return
        self.close()
        # `ebbtide clean` finds the folder if this process is killed.
        self._log = self._files.enter_context(scratch_folder(PYTEST)) / "judging.log"
        log = self._files.enter_context(self._log.open("wb"))
        try:
            # In a session of its own, so that Ctrl-C reaches only pytest, which then ends it.
            self._process = subprocess.Popen(
                [*self._command, "analyze", "-"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        except OSError as error:
            self.close()
            raise CommandFailed(f"the judging process does not start: {error}") from None
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, self._process.pid, os.getpriority(os.PRIO_PROCESS, 0) + _NICER_BY)

    def judge(self, record: Path) -> None:
        """Judge a record, which then has its verdict. Raises `CommandFailed`."""
        try:
            answer = self._ask(record) or self._ask(record)
        except BaseException:
            # After an interrupt, the answer would be read as that to the next question.
            self._end_at_once()
            raise
        if answer is None:
            raise CommandFailed(f"the judging process ended twice with {record}\n{self._tail()}")
        if answer["exit_code"] > 2:
            raise CommandFailed(f"ebbtide analyze {record}: exit code {answer['exit_code']}\n{answer['failure']}")

    def close(self) -> None:
        """End the process, and wait for its end. Does nothing if there is none."""
        process, self._process, self._log = self._process, None, None
        with self._files:
            if process is None:
                return
            for pipe in (process.stdin, process.stdout):
                # Closing flushes a question that it may not read any more.
                with contextlib.suppress(OSError):
                    assert pipe is not None
                    pipe.close()
            try:
                process.wait(_CLOSE_TIMEOUT_S)
            except BaseException as error:
                process.kill()
                process.wait()
                # One that does not end has judged all the same: every answer was read before.
                if not isinstance(error, subprocess.TimeoutExpired):
                    raise

    def _ask(self, record: Path) -> dict[str, Any] | None:
        """Return the answer to a question; None if the process ended meanwhile."""
        import json

        self.begin()
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{record}\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
            if line.endswith("\n"):
                try:
                    found: dict[str, Any] = json.loads(line)
                except ValueError:
                    raise CommandFailed(f"the judging process answered with {line!r}\n{self._tail()}") from None
                return found
        self._process.wait()
        return None

    def _end_at_once(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self.close()

    def _tail(self) -> str:
        said = "" if self._log is None else self._log.read_text(errors="replace")
        return "\n".join(said.splitlines()[-_TAIL_LINES:])
