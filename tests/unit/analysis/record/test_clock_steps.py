"""Each order that must agree with the times shows that a clock was set back; a clock that went on shows nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from judge_records import Story, ns
from records import as_record

from analysis.evidence.report import TimelineReport, save
from analysis.judge.doubts import why_unsure
from analysis.record.clock_steps import Span
from ebbtide.record.files import RecordFolder

BACK_S = 3.0


def _send(story: Story, sequence: int, sent_s: float, done_s: float | None) -> None:
    story.tables["sends"].append(
        {
            "topic": "t",
            "partition": 0,
            "value": sequence,
            "producer": 1,
            "sequence": sequence,
            "acks": -1,
            "status": "acked",
            "sent_ns": ns(sent_s),
            "done_ns": None if done_s is None else ns(done_s),
        }
    )


def _describe(story: Story, asked_s: float, at_s: float) -> None:
    row: dict[str, Any] = {"topic": "t", "partition": 0, "broker": 1, "leader": 1, "leader_epoch": 0, "isr": [1]}
    story.tables["described"].append(row | {"asked_ns": ns(asked_s), "at_ns": ns(at_s)})


def _commit(story: Story, asked_s: float, done_s: float) -> None:
    row = {"group": "g", "topic": "t", "partition": 0, "offsets_partition": 0, "status": "acked"}
    story.tables["commits"].append(row | {"asked_ns": ns(asked_s), "done_ns": ns(done_s)})


def _sends(story: Story, back_s: float) -> None:
    _send(story, 7, 20 - back_s, None)
    _send(story, 6, 20, 20.5)


def _ack(story: Story, back_s: float) -> None:
    _send(story, 6, 20, 20.1 - back_s)


def _answers(story: Story, back_s: float) -> None:
    story.hw(20, 1, 0, 5)
    story.hw(20.1 - back_s, 1, 0, 6)


def _descriptions(story: Story, back_s: float) -> None:
    _describe(story, 20, 20.01)
    _describe(story, 20.1 - back_s, 20.11 - back_s)


def _commits(story: Story, back_s: float) -> None:
    _commit(story, 20, 20.1 - back_s)


def _log(story: Story, back_s: float) -> None:
    story.was_clock_set = True
    story.state(20, isr=[1, 2])
    story.broker(20.1 - back_s, 3)


def _steps(story: Story, back_s: float) -> None:
    story.step(20, "kill", 1)
    assert story.steps is not None
    story.steps[-1] = msgspec.structs.replace(story.steps[-1], effect_ns=ns(20.1 - back_s))


def _unsure(story: Story) -> tuple[Span, ...]:
    story.write()
    return as_record(story.record).unsure_spans


@pytest.mark.parametrize("shows", [_sends, _ack, _answers, _descriptions, _commits, _log, _steps])
def test_orders_that_must_agree_show_a_step_back(tmp_path: Path, shows: Callable[[Story, float], None]) -> None:
    for name, back_s, found in (("set-back", BACK_S, 1), ("never-set", 0.0, 0), ("set-forward", -BACK_S, 0)):
        record = tmp_path / name
        record.mkdir()
        story = Story(record)
        story.state(1)
        shows(story, back_s)
        spans = _unsure(story)
        assert len(spans) == found, name
        assert all(ns(20 - BACK_S) <= since < until <= ns(20.1) for since, until in spans)


def test_only_what_was_over_a_second_before_the_first_span_is_sure(tmp_path: Path) -> None:
    story = Story(tmp_path)
    _log(story, BACK_S)
    unsure = _unsure(story)
    assert why_unsure(unsure, ns(15)) is None
    assert why_unsure(unsure, ns(18)) is not None
    assert why_unsure(unsure, ns(40)) is not None
    assert "set back at or after" in (why_unsure(unsure, None) or "")


def test_times_that_a_watched_clock_leaves_in_doubt_are_not_sure(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.state(1)
    nothing = TimelineReport(controller=None, how="", end_offset=0, logs=(), missing=())
    save(RecordFolder(tmp_path), "timeline", msgspec.structs.replace(nothing, unsure_ns=((ns(20), ns(23)),)))
    assert _unsure(story) == ((ns(20), ns(23)),)
