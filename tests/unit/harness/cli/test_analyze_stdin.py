"""Records whose paths come in one line of stdin: each has an answer, also where they cannot be judged together."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest

from ebbtide.errors import HarnessError
from harness.cli import judging
from harness.cli.analyze_stdin import _judge_and_print
from harness.cli.judging import JudgingSession


def test_records_that_a_bug_keeps_from_being_judged_together_are_judged_one_by_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[list[str]] = []

    def judge(records: Sequence[Path]) -> dict[Path, HarnessError]:
        asked.append([str(record) for record in records])
        if len(records) > 1:
            raise KeyError
        return {record: HarnessError(f"no {record}") for record in records}

    monkeypatch.setattr(judging, "judging_together", lambda **_: nullcontext(judge))
    monkeypatch.setattr(JudgingSession, "spark_for", lambda *_: None)
    assert _judge_and_print(JudgingSession(), ["one", "two"], "outcome") == {3}
    assert asked == [["one", "two"], ["one"], ["two"]]
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["record"], one["failure"], one["can_judge"]) for one in answers] == [
        ("one", "no one", True),
        ("two", "no two", True),
    ]
