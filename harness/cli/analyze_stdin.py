"""`ebbtide analyze -`: judges records whose paths come on stdin, one a line, in one Spark session.

A line may also have several paths, with a NUL between them. Their records share Spark jobs, which takes less time.

The session starts and warms up before the first path comes, and is kept until stdin ends. So a caller with a record now
and then does not wait for Spark's start.

A caller that was killed leaves paths behind: many may wait in the pipe. So the process begins with no record once
nobody can read its answers. Otherwise it would write into records that the next start of the caller judges.

If the session's Java process ends, for instance because the kernel killed it, it starts again, and the records that it
was judging are judged once more, each by itself.
"""

from __future__ import annotations

import contextlib
import select
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide.errors import EbbtideError, ExitCode, HarnessError
from ebbtide.judging_process import TOGETHER_MARK
from ebbtide.judging_progress import Heartbeat
from ebbtide.record.outcomes import AnalyzedRecord, FailOn, exit_code_of
from ebbtide.record.verdict import Verdict
from ebbtide.signals import is_interrupt, unwind_on_signals
from harness.cli.crash import write_crash_report
from harness.cli.output import print_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from analysis.spark.java_start import JavaStart
    from analysis.spark.session import Jvm

STDIN = "-"
"""The RUN that stands for paths on stdin."""
_DYING_S = 2.0
"""How long a Java process with which a call failed may take to end."""


class JudgingSession:
    """The Spark session of several judgements, so that only the first one waits for its start."""

    def __init__(self, *, many: bool = False) -> None:
        """With `many`, it suits dozens of records: each takes less time, except the first ones."""
        self._many = many
        self._stack = contextlib.ExitStack()
        self._jvm: Jvm | None = None
        self._spark: SparkSession | None = None

    def started(self) -> SparkSession:
        """Return the session. It is started if there is none that runs."""
        from analysis.spark.java_start import early_start

        with contextlib.ExitStack() as starting:
            start = starting.enter_context(early_start(many=self._many)) if self._spark is None else None
            return self._started_with(start, starting)

    def _started_with(self, start: JavaStart | None, starting: contextlib.ExitStack) -> SparkSession:
        """Return the session, which takes over `start` if there is none that runs."""
        from analysis.spark.session import Jvm, session

        if self._spark is not None and self.has_ended():
            self.close()
        if self._spark is None:
            self._stack.push(starting.pop_all())
            self._spark = self._stack.enter_context(session(many=self._many, start=start))
            self._jvm = Jvm.running
        return self._spark

    def has_ended(self, error: Exception | None = None) -> bool:
        """Return whether the session's Java process has ended, which a call may see by `error` before it is gone."""
        from ebbtide.signals import is_interrupt

        if self._jvm is None or is_interrupt(error):
            return False
        return self._jvm.has_ended(0.0 if error is None or isinstance(error, EbbtideError) else _DYING_S)

    def error_of(self, record: Path, error: Exception) -> HarnessError:
        """Return why a record is not judged with which the Java process ended."""
        explained = self._jvm.out_of_memory_error(error) if self._jvm is not None else None
        return explained or HarnessError(
            "the Java process of Spark ended while it judged this record, twice",
            where=str(record),
            got="it was killed, or it crashed",
            next="dmesg | grep -i 'killed process'    (says whether memory ran out)",
        )

    def collect_garbage(self) -> None:
        """Let the Java process give back memory; otherwise it grows to its whole heap, and stays so."""
        jvm = self._spark._jvm if self._spark is not None else None
        if jvm is not None:
            # A process that has ended is noticed when the next record comes.
            with contextlib.suppress(Exception):
                jvm.System.gc()

    def load_common_classes(self) -> None:
        """Load the classes of the common plans if this is a first session, which archives them as it ends."""
        if self._spark is not None and not self.has_ended():
            from analysis.judging.warm_up import load_common_classes_if_first

            load_common_classes_if_first(self._spark)

    def close(self) -> None:
        """End the session; the next record starts another one."""
        stack, self._stack = self._stack, contextlib.ExitStack()
        jvm, self._jvm, self._spark = self._jvm, None, None
        stack.close()
        if jvm is not None and jvm.has_ended():
            # Also one that was there before this session.
            jvm.close()


def judge_together(session: JudgingSession, records: Sequence[Path]) -> dict[Path, Verdict | EbbtideError]:
    """Judge records in the same Spark jobs, write their verdicts, and return them, or why there is none.

    A record that cannot be judged does not stop the others. Those with which the Java process ended are judged each by
    itself. stderr gets a line at each stage.
    """
    with Heartbeat(len(records), each_stage=True) as beat:
        return _judge_all(records, session, beat)


def _judge_all(records: Sequence[Path], session: JudgingSession, beat: Heartbeat) -> dict[Path, Verdict | EbbtideError]:
    from analysis.judging.many_records import judge_many

    ends: dict[Path, Verdict | EbbtideError] = {}
    try:
        for record, end in judge_many(records, session.started, beat.stage):
            ends[record] = end
            beat.report_judged()
    except Exception as error:
        if not session.has_ended(error):
            raise
    if session.has_ended():
        for record in records:
            if isinstance(ends.get(record), EbbtideError) or record not in ends:
                try:
                    ends[record] = _judge_again_if_ended(record, session, beat)
                except EbbtideError as error:
                    ends[record] = error
    return {record: ends[record] for record in records}


def _judge_again_if_ended(record: Path, session: JudgingSession, beat: Heartbeat) -> Verdict:
    """Judge a record; once more if the Java process ended meanwhile. Raises HarnessError if it ends again."""
    from analysis.judging.many_records import judge

    for is_last in (False, True):
        try:
            return judge(record, session.started, beat.stage)
        except Exception as error:
            if not session.has_ended(error):
                raise
            if is_last:
                raise session.error_of(record, error) from None
    raise AssertionError


def judge_from_stdin(*, many: bool = False, fail_on: FailOn = "outcome") -> ExitCode:
    """Judge each record as its path comes, print one JSON object a record, and return the worst exit code.

    With `many`, dozens of records come.
    """
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
