"""Texts of scenarios are read once, where a scenario is read, and are written back as they were typed."""

from __future__ import annotations

import msgspec
import pytest
from plain_steps import step_of, trigger_of

from ebbtide.daemon.messages import Fire, Request
from ebbtide.errors import UsageError
from ebbtide.scenario.mismatches import mismatches
from ebbtide.scenario.plain_values import from_plain, read_part, to_plain
from ebbtide.scenario.roles import Role
from ebbtide.scenario.steps.process import KillStep
from ebbtide.scenario.steps.step import StepSpec
from ebbtide.scenario.triggers import Trigger
from ebbtide.scenario.words import ClockOffset, Duration, Rate
from ebbtide.scenario.write import keys_set


def test_a_rate_is_read_in_bytes() -> None:
    assert Rate("256kbit").bytes_s == 32_000


@pytest.mark.parametrize(("text", "milliseconds"), [("+1h", 3_600_000), ("-3s", -3000), ("+1.5m", 90_000)])
def test_an_offset_of_a_clock_has_its_sign(text: str, milliseconds: int) -> None:
    assert ClockOffset(text).milliseconds == milliseconds
    step = {"step": "set-clock", "offset": text}
    assert to_plain(from_plain(step, StepSpec))["offset"] == text


@pytest.mark.parametrize("text", ["1h", "+500ms", "-25h", "+0s", "+1d", "soon", "+9999999999h"])
def test_an_offset_without_a_sign_or_out_of_range_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not an offset of a clock") as caught:
        ClockOffset(text)
    assert "'+1h' or '-3s'" in str(caught.value.allowed)


def test_a_step_goes_over_the_control_socket_as_it_is() -> None:
    fire = Fire(step=step_of("start", target="broker(1)", trigger=trigger_of(after=Duration("500ms"))))
    line = msgspec.json.encode(to_plain(fire))
    assert msgspec.json.decode(line, type=Request, dec_hook=read_part) == fire


def test_a_text_over_the_socket_that_is_no_duration_cannot_be_decoded() -> None:
    line = b'{"type": "fire", "step": {"step": "flap", "times": 1, "period": "soon"}}'
    with pytest.raises(msgspec.DecodeError, match="not a duration: 'soon'"):
        msgspec.json.decode(line, type=Request, dec_hook=read_part)


def test_every_key_of_a_step_that_does_not_fit_its_type_is_named_at_once() -> None:
    raw = {"step": "slow-disk", "target": "broker(one)", "period": "soon", "delay": 5}
    found = [(one.what, one.where) for one in mismatches(raw, StepSpec)]
    assert found == [("unknown role", "target"), ("not a duration", "period"), ("wrong value", "delay")]


@pytest.mark.parametrize(
    "written",
    [
        {"acked": 5},
        {"after": "1.50s"},
        {"isr": {"partition": "t-0", "size": 1}},
        {"leader_is": {"partitions": ["t-0", "u-1"], "broker": "none"}},
        {"config_is": {"resource": "broker:leader(t-0)", "config": "c", "value": ""}},
        {"held": {"node": "broker(1)", "api": "Fetch", "at_least": 2}},
    ],
)
def test_a_trigger_is_one_key_and_is_written_back_as_it_was_read(written: dict[str, object]) -> None:
    assert keys_set(from_plain(written, Trigger)) == written


@pytest.mark.parametrize("written", [{}, {"acked": 1, "after": "2s"}, {"never": 1}])
def test_a_trigger_of_no_key_or_two_cannot_be_read(written: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError, match="not a trigger"):
        from_plain(written, Trigger)


def test_a_step_is_a_struct_of_its_kind_and_is_written_with_the_keys_of_all_kinds() -> None:
    step = from_plain({"step": "kill", "target": " leader(t-0) ", "groups": [], "cancel": False}, StepSpec)
    assert step == KillStep(target=Role("leader(t-0)"))
    assert to_plain(step)["target"] == " leader(t-0) "
    assert keys_set(step) == {
        "step": "kill",
        "target": " leader(t-0) ",
        **{key: [] for key in ("groups", "from", "to", "replicas")},
        "deadline_s": 30.0,
    }
