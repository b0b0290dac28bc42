"""`ebbtide analyze -`: judges records whose paths come on stdin, one a line, in one Spark session.

A line may also have several paths, with a NUL between them. Their records share Spark jobs, which takes less time.

The session starts and warms up before the first path comes, and is kept until stdin ends. So a caller with a record now
and then does not wait for Spark's start.

A caller that was killed leaves paths behind: many may wait in the pipe. So the process also ends as soon as nobody can
read its answers. Otherwise it would write into records that the next start of the caller judges.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide.errors import EbbtideError, ExitCode
from ebbtide.judging_process import TOGETHER_MARK
from ebbtide.record.outcomes import AnalyzedRecord, FailOn, exit_code_of
from ebbtide.record.verdict import Verdict
from ebbtide.signals import is_interrupt, unwind_on_signals
from harness.cli.crash import write_crash_report
from harness.cli.output import print_json

if TYPE_CHECKING:
    from harness.cli.judging import JudgingSession

STDIN = "-"
"""The RUN that stands for paths on stdin."""


def judge_from_stdin(*, many: bool = False, fail_on: FailOn = "outcome") -> ExitCode:
    """Judge each record as its path comes, print one JSON object a record, and return the worst exit code.

    With `many`, dozens of records come.
    """
    from harness.cli.judging import JudgingSession

    codes: set[ExitCode] = set()
    reader = _AnswerReader()
    with unwind_on_signals(), contextlib.closing(JudgingSession(many=many)) as session:
        _start_early(session)
        for line in iter(sys.stdin.readline, ""):
            if paths := [path for path in line.rstrip("\n").split(TOGETHER_MARK) if path]:
                codes |= _judge_and_print(session, paths, fail_on, reader)
        session.load_common_classes()
    # Nothing was judged, so nothing is as predicted.
    return ExitCode.worst(codes or {ExitCode.INCONCLUSIVE})


class _RecordWaits(Exception):
    """Ends the judgement of the made record: on a busy host, the record would wait for minutes."""


class _AnswerReader:
    """The other end of stdout, if it is a pipe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.is_gone = False
        self._is_needed = False
        threading.Thread(target=self._await_end, name="ebbtide-answer-reader", daemon=True).start()

    @contextlib.contextmanager
    def is_needed(self) -> Iterator[None]:
        """Unwind the stack of this process as soon as the reader is gone, if that happens before the block ends."""
        with self._lock:
            if self.is_gone:
                raise SystemExit(ExitCode.HARNESS_FAILED)
            self._is_needed = True
        try:
            yield
        finally:
            with self._lock:
                self._is_needed = False

    def _await_end(self) -> None:
        poll = select.poll()
        try:
            # Without events, poll reports only errors. A pipe has one once its last reader is gone.
            poll.register(sys.stdout.fileno(), 0)
        except OSError:  # not a file, as in a test
            return
        poll.poll()
        with self._lock:
            self.is_gone = True
            if self._is_needed:
                os.kill(os.getpid(), signal.SIGTERM)


def _start_early(session: JudgingSession) -> None:
    """Start Spark, and judge a made record until another one waits.

    If Spark does not start, the first record gets the error. If the made record cannot be judged, the first record only
    takes longer.
    """

    def end_if_a_record_waits(_stage: str) -> None:
        if select.select([sys.stdin], [], [], 0)[0]:
            raise _RecordWaits

    try:
        spark = session.started()

        from analysis.judging.warm_up import warm_up  # PySpark, beside which the Java process boots

        warm_up(spark, end_if_a_record_waits)
    except Exception as error:
        if is_interrupt(error):
            raise


def _judge_and_print(
    session: JudgingSession, paths: Sequence[str], fail_on: FailOn, reader: _AnswerReader
) -> set[ExitCode]:
    """Judge the records of a line in the same jobs, print an answer for each, and return their exit codes."""
    from harness.cli.judging import judge_together

    records = [Path(path) for path in paths]
    ends: Mapping[Path, Verdict | Exception]
    can_judge = False
    with contextlib.ExitStack() as stack, reader.is_needed():
        try:
            session.started()
            can_judge = True
            ends = judge_together(session, records)
            # Who asked goes on meanwhile, and may end.
            stack.callback(session.collect_garbage)
        except Exception as error:
            if is_interrupt(error):
                raise
            if can_judge and len(paths) > 1:
                # A bug with one of them.
                return {code for path in paths for code in _judge_and_print(session, [path], fail_on, reader)}
            ends = dict.fromkeys(records, error)
        return {
            _print_answer(path, ends[record], fail_on, can_judge=can_judge)
            for path, record in zip(paths, records, strict=True)
        }


def _print_answer(path: str, end: Verdict | Exception, fail_on: FailOn, *, can_judge: bool) -> ExitCode:
    """Print the verdict, or why there is none, and return the exit code that it gives."""
    from analysis.judging.many_records import Bug

    if isinstance(end, Bug):
        end = end.error
    if not isinstance(end, Exception):
        code = exit_code_of(end, fail_on)
        print_json(AnalyzedRecord(record=path, outcome=end.outcome, exit_code=code))
        return code
    if isinstance(end, EbbtideError):
        code, failure = end.exit_code, end.render()
    else:
        code, failure = ExitCode.HARNESS_FAILED, write_crash_report(end)
    print_json(AnalyzedRecord(record=path, exit_code=code, failure=failure, can_judge=can_judge))
    return code
