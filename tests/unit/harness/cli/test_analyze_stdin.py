"""Records whose paths come in one line of stdin: each has an answer, also where they cannot be judged together."""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest.mock import Mock

import pytest

from analysis.spark import java_start, session
from ebbtide.errors import HarnessError
from harness.cli import analyze_stdin
from harness.cli.analyze_stdin import JudgingSession, _judge_and_print, judge_from_stdin


def test_judgements_share_a_java_process_and_outlive_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[bool] = []

    @contextlib.contextmanager
    def open_session(**_: object) -> Iterator[object]:
        ended.append(False)
        number = len(ended) - 1
        monkeypatch.setattr(session.Jvm, "running", Mock(has_ended=lambda *_: ended[number]))
        yield number

    monkeypatch.setattr(session, "session", open_session)
    monkeypatch.setattr(java_start, "early_start", lambda **_: contextlib.nullcontext())
    with contextlib.closing(JudgingSession()) as judging:
        assert [judging.started(), judging.started()] == [0, 0]
        ended[0] = True
        assert [judging.started(), judging.started()] == [1, 1]


def test_records_that_a_bug_keeps_from_being_judged_together_are_judged_one_by_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[list[str]] = []

    def judge(_session: object, records: Sequence[Path]) -> dict[Path, HarnessError]:
        asked.append([str(record) for record in records])
        if len(records) > 1:
            raise KeyError
        return {record: HarnessError(f"no {record}") for record in records}

    monkeypatch.setattr(analyze_stdin, "judge_together", judge)
    monkeypatch.setattr(JudgingSession, "started", lambda *_: None)
    assert _judge_and_print(JudgingSession(), ["one", "two"], "outcome") == {3}
    assert asked == [["one", "two"], ["one"], ["two"]]
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["record"], one["failure"], one["can_judge"]) for one in answers] == [
        ("one", "no one", True),
        ("two", "no two", True),
    ]


def test_no_record_is_judged_once_nobody_can_read_the_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = os.pipe()
    judged: list[Path] = []

    def judge(_session: object, records: Sequence[Path]) -> dict[Path, HarnessError]:
        judged.extend(records)
        os.close(ours)
        return {record: HarnessError("no") for record in records}

    monkeypatch.setattr(analyze_stdin, "judge_together", judge)
    monkeypatch.setattr(JudgingSession, "started", lambda *_: None)
    monkeypatch.setattr(analyze_stdin, "_start_early", lambda _: None)
    monkeypatch.setattr("sys.stdin", io.StringIO("one\ntwo\n"))
    with contextlib.suppress(BrokenPipeError), os.fdopen(theirs, "w") as answers:
        monkeypatch.setattr("sys.stdout", answers)
        with contextlib.suppress(BrokenPipeError):
            judge_from_stdin()
        assert judged == [Path("one")]
        assert analyze_stdin._is_reader_gone()
