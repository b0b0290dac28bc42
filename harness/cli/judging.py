"""Judges records in one Spark session.

The session starts with the first record. If its Java process ends, for instance because the kernel killed it, it starts
again, and the records that it was judging are judged once more, each by itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide.errors import EbbtideError, HarnessError
from ebbtide.judging_progress import Heartbeat
from ebbtide.record.folder import RecordFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from analysis.spark.java_start import JavaStart
    from analysis.spark.session import Jvm
    from ebbtide.record.verdict import Verdict

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
            next="dmesg    (says whether the kernel killed it because memory ran out)",
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
    ends: dict[Path, Verdict | EbbtideError] = {}
    from analysis.judging.many_records import judge_many

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
    for is_last in (False, True):
        from analysis.judging.one_record import judge

        try:
            return judge(RecordFolder(record), session.started, beat.stage)
        except Exception as error:
            if not session.has_ended(error):
                raise
            if is_last:
                raise session.error_of(record, error) from None
    raise AssertionError
