"""`ebbtide analyze -`: judges records whose paths come on stdin, one a line, in one Spark session.

The session starts before the first path comes, and is kept until stdin ends. So a test session, which has a record now
and then, waits for Spark's start once at most.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

from ebbtide.errors import EbbtideError, ExitCode, HarnessError
from ebbtide.record.analyzed import AnalyzedRecord
from ebbtide.record.verdict import EXIT_OF_OUTCOME
from ebbtide.signals import is_interrupt
from harness.cli.crash import write_crash_report
from harness.cli.output import print_json

STDIN = "-"
"""The RUN that stands for paths on stdin."""


def judge_from_stdin() -> ExitCode:
    """Judge each record as its path comes, print one JSON object a record, and return the worst exit code."""
    from harness.cli.judging import JudgingSession

    codes: set[ExitCode] = set()
    with JudgingSession.keep():
        _start_early()
        for line in iter(sys.stdin.readline, ""):
            if path := line.rstrip("\n"):
                codes.add(_judge_and_print(path))
    # Nothing was judged, so nothing is as predicted.
    return ExitCode.worst(codes or {ExitCode.INCONCLUSIVE})


def _start_early() -> None:
    """Start Spark, and import what judging needs. What is wrong is reported with the first record."""
    from analysis.judging import one_record as one_record
    from analysis.report import html as html
    from harness.cli.judging import JudgingSession

    if JudgingSession.kept is not None:
        with contextlib.suppress(HarnessError):
            JudgingSession.kept.spark_for([])


def _judge_and_print(path: str) -> ExitCode:
    from harness.cli.judging import open_judge

    try:
        with open_judge([Path(path)]) as judge:
            verdict = judge(Path(path))
            code = EXIT_OF_OUTCOME[verdict.outcome]
            # Before the session collects its garbage: who asked goes on meanwhile.
            print_json(AnalyzedRecord(record=path, outcome=verdict.outcome, exit_code=code))
            return code
    except Exception as error:
        if is_interrupt(error):
            raise
        if isinstance(error, EbbtideError):
            code, failure = error.exit_code, error.render()
        else:
            code, failure = ExitCode.HARNESS_FAILED, write_crash_report(error)
    print_json(AnalyzedRecord(record=path, exit_code=code, failure=failure))
    return code
