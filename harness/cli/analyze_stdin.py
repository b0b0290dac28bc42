"""`ebbtide analyze -`: judges records whose paths come on stdin, one a line, in one Spark session.

A line may also have several paths, with a NUL between them. Their records share Spark jobs, which takes less time.

The session starts and warms up before the first path comes, and is kept until stdin ends. So a caller with a record now
and then does not wait for Spark's start.

A caller that was killed leaves paths behind: many may wait in the pipe. So the process begins with no record once
nobody can read its answers. Otherwise it would write into records that the next start of the caller judges.
"""

from __future__ import annotations

import contextlib
import select
import sys
from collections.abc import Mapping, Sequence
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
    with unwind_on_signals(), contextlib.closing(JudgingSession(many=many)) as session:
        _start_early(session)
        for line in iter(sys.stdin.readline, ""):
            if paths := [path for path in line.rstrip("\n").split(TOGETHER_MARK) if path]:
                if _is_reader_gone():
                    return ExitCode.HARNESS_FAILED
                codes |= _judge_and_print(session, paths, fail_on)
        session.load_common_classes()
    # Nothing was judged, so nothing is as predicted.
    return ExitCode.worst(codes or {ExitCode.INCONCLUSIVE})


class _RecordWaits(Exception):
    """Ends the judgement of the made record: on a busy host, the record would wait for minutes."""


def _is_reader_gone() -> bool:
    """Whether nobody can read the answers any more, if stdout is a pipe."""
    poll = select.poll()
    with contextlib.suppress(OSError):  # in a test it may be no file
        # Without events, poll reports only errors. A pipe has one once its last reader is gone.
        poll.register(sys.stdout.fileno(), 0)
    return bool(poll.poll(0))


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


def _judge_and_print(session: JudgingSession, paths: Sequence[str], fail_on: FailOn) -> set[ExitCode]:
    """Judge the records of a line in the same jobs, print an answer for each, and return their exit codes."""
    from harness.cli.judging import judge_together

    records = [Path(path) for path in paths]
    ends: Mapping[Path, Verdict | Exception]
    can_judge = False
    with contextlib.ExitStack() as stack:
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
                return {code for path in paths for code in _judge_and_print(session, [path], fail_on)}
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
