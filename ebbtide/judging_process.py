"""A process that judges records while clusters run: `ebbtide analyze -`.

It starts beside a cluster, so that no verdict waits for Spark's start. It outlives the end of its Java process; if it
ends itself, another one judges the records that have no answer yet. It does not outlive its caller, also if that is
killed: the kernel then kills this process, and with it the Java process.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from ebbtide.command import COMMAND
from ebbtide.errors import HarnessError
from ebbtide.folding import unfolded_environment
from ebbtide.judging_progress import EVERY_S, STAGES, last_place, place_of, print_line, progress_line
from ebbtide.memory import how_ended
from ebbtide.parent_death import start_tied
from ebbtide.scratch import JUDGING, remove_abandoned, scratch_folder
from ebbtide.waiting import WaitExpired, is_readable

if TYPE_CHECKING:
    from ebbtide.record.outcomes import AnalyzedRecord

_TAIL_LINES = 20
_PIPE_BYTES = 65_536
_CLOSE_TIMEOUT_S = 600.0
"""The first session on a host writes its class archive as it ends (analysis.spark.session)."""
_ANSWER_TIMEOUT_S = 3600.0
"""How long one record may take. A record of 10^9 rows takes some minutes (docs/measurements.md)."""
_END_TIMEOUT_S = 30.0
"""How long a process that was asked to end at once may take; it ends Spark first."""
TOGETHER = 4
"""How many records a process for many judges in the same Spark jobs: several cost little more than one.

More take less time each, but more memory, and their verdicts come later (docs/measurements.md).
"""
TOGETHER_MARK = "\0"
"""Is between the paths of such records, which are one line; no path has it."""


class JudgingProcess(contextlib.AbstractContextManager["JudgingProcess"]):
    """`begin` starts the process, `hand_over` gives it records, `judge` waits for an answer, and `close` ends it.

    It is also a block that ends the process. An error ends it at once.
    """

    def __init__(
        self,
        command: Sequence[str] = COMMAND,
        *,
        many: bool = False,
        options: Sequence[str] = (),
        report: Callable[[str], None] = print_line,
    ) -> None:
        """Start nothing yet.

        With `many`, the process suits dozens of records, and judges `TOGETHER` of them at once. `options` are those of
        `ebbtide analyze` by which it judges. While `judge` waits, `report` gets a line every 10 s.
        """
        self._report = report
        self._command = (*command, "analyze", "-", *(["--many"] if many else []), *options)
        self._process: subprocess.Popen[bytes] | None = None
        self._log: Path | None = None
        self._files = contextlib.ExitStack()
        self._together = TOGETHER if many else 1
        self._held: list[Path] = []
        """Records that the process does not have yet, because it will judge them together."""
        self._waiting: list[Path] = []
        self._unread = b""
        """The beginning of an answer that is not complete."""
        self._answers: dict[Path, AnalyzedRecord] = {}
        self._judged = 0
        self._waits_since = self._reports_at = 0.0
        """When `judge` began to wait, and when it is to report next."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self._end_at_once()

    def begin(self) -> None:
        """Start the process if none runs, and return at once. Raises `HarnessError`."""
        if self._waiting or self.is_running():
            return
        self._close(_CLOSE_TIMEOUT_S)
        try:
            # `ebbtide clean` finds the folder if this process is killed.
            self._log = self._files.enter_context(scratch_folder(JUDGING)) / "judging.log"
            log = self._files.enter_context(self._log.open("wb"))
            # In a session of its own, so that Ctrl-C reaches only the caller, which then ends it. Never with a higher
            # nice value than the caller: an ordinary user could not lower it again when somebody waits.
            self._process = start_tied(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=unfolded_environment(),
                stderr=log,
                start_new_session=True,
            )
        except OSError as error:
            self.close()
            raise HarnessError("the judging process does not start", got=str(error)) from None

    def hand_over(self, record: Path) -> None:
        """Let a record be judged after those before it, and return at once. Raises `HarnessError`.

        A process for many gets it with the next ones, or once `judge` asks for one of them. At most some hundred
        records may wait, because the pipes to the process hold no more.
        """
        if not _is_a_line(str(record)):
            raise HarnessError(
                "the judging process cannot be given this record",
                got=ascii(str(record)),
                allowed="a path of one line in UTF-8",
                next="ebbtide analyze FOLDER    (with the folder of the record)",
            )
        self._held.append(record)
        if len(self._held) >= self._together:
            self._give(self._held)

    def _give(self, records: Sequence[Path]) -> None:
        """Let records be judged in the same jobs."""
        if not self._waiting:
            self.begin()
        assert self._process is not None
        assert self._process.stdin is not None
        self._held = [record for record in self._held if record not in records]
        self._waiting += records
        # That it has ended shows when its answer is read.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(TOGETHER_MARK.join(map(str, records)).encode() + b"\n")
            self._process.stdin.flush()

    def judge(self, record: Path) -> AnalyzedRecord:
        """Wait until a record is judged, and return the answer.

        Hands it over if it was not. Raises `HarnessError` if the process ends twice with it, or answers with something
        else, and `WaitExpired` if a record takes more than an hour.
        """
        self._waits_since = time.monotonic()
        self._reports_at = self._waits_since + EVERY_S
        try:
            if not (record in self._waiting or record in self._held or record in self._answers):
                self.hand_over(record)
            if record in self._held:
                self._give(self._held)
            ended_with: Path | None = None
            while record not in self._answers:
                first = self._waiting[0]
                if (ended := self._take_answer()) is not None:
                    if first == ended_with:
                        raise HarnessError(
                            "the judging process ended twice with this record",
                            where=str(first),
                            got=f"{ended}\n{self._tail()}",
                        )
                    ended_with = first
                    self._hand_over_again()
        except BaseException:
            # After an interrupt, the answer would be read as that to the next question.
            self._end_at_once()
            raise
        return self._answers.pop(record)

    def is_judging(self, record: Path) -> bool:
        """Whether `judge` would wait for this record: it, or one before it, is judged, or it is held for the next ones.

        False also if the process has ended or failed with it. `judge` then starts another one, or says what failed.
        """
        try:
            while record in self._waiting and self._is_answer_there():
                if self._take_answer() is not None:
                    return False
        except BaseException as error:
            self._end_at_once()
            if not isinstance(error, HarnessError):
                raise
        return record in self._waiting or record in self._held

    def is_running(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def finish(self) -> None:
        """Let the process end while the caller goes on: no more records come."""
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()

    def close(self) -> None:
        """End the process when it has answered, and wait for its end. Does nothing if there is none."""
        self._held = []
        self._close(_CLOSE_TIMEOUT_S)

    def _close(self, timeout_s: float) -> None:
        """Close it, and kill it after `timeout_s`."""
        process, self._process, self._log = self._process, None, None
        self._waiting, self._unread = [], b""
        with self._files:
            if process is None:
                return
            for pipe in (process.stdin, process.stdout):
                # Closing flushes a question that it may not read any more.
                with contextlib.suppress(OSError):
                    assert pipe is not None
                    pipe.close()
            # One that does not end has judged all the same: every answer was read before.
            self._await_end(process, timeout_s)

    def _take_answer(self) -> str | None:
        """Wait for the answer to the first question; returns how the process ended if it did so instead."""
        import msgspec

        from ebbtide.record.outcomes import AnalyzedRecord

        assert self._process is not None
        line = self._read_line()
        if line is None:
            self._await_end(self._process, _END_TIMEOUT_S)
            return how_ended(self._process.returncode)
        try:
            answer = msgspec.json.decode(line, type=AnalyzedRecord)
        except msgspec.MsgspecError:
            raise HarnessError(
                "the judging process answers with something else",
                got=f"{line.decode(errors='replace')!r}\n{self._tail()}",
            ) from None
        self._answers[self._waiting.pop(0)] = answer
        self._judged += 1
        return None

    @staticmethod
    def _await_end(process: subprocess.Popen[bytes], timeout_s: float) -> None:
        """Wait until the process has ended; kill one that hangs as it ends, also if the wait is interrupted."""
        try:
            process.wait(timeout_s)
        except BaseException as error:
            process.kill()
            process.wait()
            # It could not remove its own folders any more.
            remove_abandoned()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise

    def _is_answer_there(self) -> bool:
        """Whether the process has answered, or ended."""
        assert self._process is not None
        assert self._process.stdout is not None
        return b"\n" in self._unread or is_readable(self._process.stdout)

    def _read_line(self) -> bytes | None:
        """Return the next line that the process prints, None if it closed its output. Raises `WaitExpired`."""
        assert self._process is not None
        assert self._process.stdout is not None
        output = self._process.stdout.fileno()
        deadline = time.monotonic() + _ANSWER_TIMEOUT_S
        while b"\n" not in self._unread:
            if not is_readable(output, max(0.0, min(deadline, self._reports_at) - time.monotonic())):
                if time.monotonic() >= deadline:
                    last_seen = self._tail() or "no output"
                    raise WaitExpired(f"the verdict of {self._waiting[0]}", _ANSWER_TIMEOUT_S, last_seen)
                self._report_progress()
                continue
            if not (data := os.read(output, _PIPE_BYTES)):
                return None
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _report_progress(self) -> None:
        """Report how far the process is; its own words say which stage it is in."""
        self._reports_at += EVERY_S
        place = last_place(self._said()) or place_of(STAGES[0])
        records = self._judged + len(self._waiting) + len(self._held)
        self._report(progress_line(time.monotonic() - self._waits_since, self._judged, records, place))

    def _hand_over_again(self) -> None:
        """Give each record by itself, so that one with which the process ends shows."""
        waiting, self._waiting = self._waiting, []
        for record in waiting:
            self._give([record])

    def _end_at_once(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._close(_END_TIMEOUT_S)

    def _tail(self) -> str:
        return "\n".join(self._said().splitlines()[-_TAIL_LINES:])

    def _said(self) -> str:
        """Return what the process has printed to stderr."""
        return "" if self._log is None else self._log.read_text(errors="replace")


def _is_a_line(text: str) -> bool:
    """Whether a text is one line of UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:  # a file name may have any bytes
        return False
    return "\n" not in text
