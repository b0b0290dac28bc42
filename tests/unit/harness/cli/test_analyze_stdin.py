"""Records whose paths come in one line of stdin: each has an answer, also where they cannot be judged together."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from ebbtide.errors import HarnessError
from ebbtide.waiting import wait_until
from harness.cli import judging
from harness.cli.analyze_stdin import _AnswerReader, _judge_and_print
from harness.cli.judging import JudgingSession


def test_records_that_a_bug_keeps_from_being_judged_together_are_judged_one_by_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[list[str]] = []

    def judge(_session: object, records: Sequence[Path]) -> dict[Path, HarnessError]:
        asked.append([str(record) for record in records])
        if len(records) > 1:
            raise KeyError
        return {record: HarnessError(f"no {record}") for record in records}

    monkeypatch.setattr(judging, "judge_together", judge)
    monkeypatch.setattr(JudgingSession, "started", lambda *_: None)
    assert _judge_and_print(JudgingSession(), ["one", "two"], "outcome", _AnswerReader()) == {3}
    assert asked == [["one", "two"], ["one"], ["two"]]
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["record"], one["failure"], one["can_judge"]) for one in answers] == [
        ("one", "no one", True),
        ("two", "no two", True),
    ]


def test_who_has_the_last_answer_may_go_while_the_session_collects_its_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = os.pipe()
    answers = os.fdopen(theirs, "w")
    monkeypatch.setattr("sys.stdout", answers)
    monkeypatch.setattr(JudgingSession, "started", lambda *_: None)
    reader = _AnswerReader()
    collected = []

    def collect(_session: object) -> None:
        assert json.loads(os.read(ours, 1 << 16))["failure"] == "no one"
        os.close(ours)
        wait_until(lambda: reader.is_gone, awaited="that the reader of answers is seen to be gone", timeout_s=30)
        collected.append("garbage")

    monkeypatch.setattr(
        judging, "judge_together", lambda _, records: {one: HarnessError(f"no {one}") for one in records}
    )
    monkeypatch.setattr(JudgingSession, "collect_garbage", collect)
    assert _judge_and_print(JudgingSession(), ["one"], "outcome", reader) == {3}
    answers.close()
    assert collected == ["garbage"]
