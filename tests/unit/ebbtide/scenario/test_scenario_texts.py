"""Durations and rates are read once, where a scenario is read, and are written back as they were typed."""

from __future__ import annotations

import msgspec
import pytest

from ebbtide.daemon.messages import Fire, Request
from ebbtide.scenario.check import check
from ebbtide.scenario.model import StepSpec, Trigger
from ebbtide.scenario.plain import from_plain, read_text, to_plain, write_text
from ebbtide.scenario.words import Duration, Rate

FLAP = {"step": "flap", "groups": [["broker(1)"], ["broker(2)"]], "times": 2, "period": "1.50s"}


def test_a_duration_is_read_with_the_step_and_written_back_as_typed() -> None:
    step = from_plain(FLAP, StepSpec)
    assert step.period == Duration("1.50s")
    assert step.period.seconds == 1.5
    assert to_plain(step)["period"] == "1.50s"


def test_a_rate_is_read_in_bytes() -> None:
    assert Rate("256kbit").bytes_s == 32_000


def test_a_step_goes_over_the_control_socket_as_it_is() -> None:
    fire = Fire(step=StepSpec(step="start", target="broker(1)", trigger=Trigger(after=Duration("500ms"))))
    line = msgspec.json.encode(fire, enc_hook=write_text)
    assert msgspec.json.decode(line, type=Request, dec_hook=read_text) == fire


def test_a_text_over_the_socket_that_is_no_duration_cannot_be_decoded() -> None:
    line = b'{"type": "fire", "step": {"step": "flap", "period": "soon"}}'
    with pytest.raises(msgspec.DecodeError, match="not a duration: 'soon'"):
        msgspec.json.decode(line, type=Request, dec_hook=read_text)


def test_a_text_that_cannot_be_read_leaves_room_for_further_problems_of_its_key() -> None:
    checked = check({"step": "kill", "target": "broker(1)", "period": "soon", "delay": 5}, StepSpec)
    assert [(one.what, one.where) for one in checked.problems] == [
        ("not a duration", "period"),
        ("wrong value", "delay"),
    ]
    assert (checked.wrong("period"), checked.unsaid("period"), checked.unsaid("delay")) == (True, False, True)
