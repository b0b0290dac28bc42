"""Texts of scenarios are read once, are written back as they were typed, and may ask without a prediction."""

from __future__ import annotations

import msgspec
import pytest
from checkout import ROOT
from plain_steps import step_of, trigger_of

from ebbtide.daemon.messages import Fire, Request
from ebbtide.errors import Problems, UsageError
from ebbtide.scenario import catalogue
from ebbtide.scenario.mismatches import mismatches
from ebbtide.scenario.model import PROTOCOL_ALONE
from ebbtide.scenario.parse import parse
from ebbtide.scenario.plain_values import from_plain, read_part, to_plain
from ebbtide.scenario.steps.process import KillStep
from ebbtide.scenario.steps.step import StepSpec
from ebbtide.scenario.triggers import Trigger
from ebbtide.scenario.words import ClockOffset, Duration, Rate, Role
from ebbtide.scenario.write import brief_text_of, keys_set, text_of


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


@pytest.mark.parametrize("name", catalogue.names())
def test_a_brief_text_means_the_same(name: str) -> None:
    scenario = catalogue.find(name)
    assert text_of(parse(brief_text_of(scenario), file="brief")) == text_of(scenario)


def test_a_trigger_and_a_config_are_in_one_line_as_in_the_shipped_files() -> None:
    text = brief_text_of(catalogue.find("rack-power-flushed"))
    assert 'config = { "flush.messages" = "1" }' in text
    assert 'trigger = { isr = { partition = "t-0", size = 3 } }' in text or "trigger = { acked = " in text
    assert "[steps.trigger]" not in text


def test_a_brief_text_folds_sentences_and_wide_tables() -> None:
    scenario = catalogue.find("rack-power-flushed")
    properties = {f"some.long.property.{number}": "10" for number in range(4)}
    cluster = msgspec.structs.replace(scenario.cluster, broker_properties=properties)
    words = 'A "quoted" back\\slash, ' + "and a sentence that goes on " * 5
    scenario = msgspec.structs.replace(scenario, cluster=cluster, description=words.strip())
    text = brief_text_of(scenario)
    assert "[cluster.broker_properties]\n" in text
    assert 'description = """\\\n' in text
    description = text.partition("description = ")[2].partition('"""\n')[0]
    assert max(map(len, description.splitlines())) <= 80
    assert parse(text, file="brief").description == words.strip()
    assert parse(text, file="brief").cluster == cluster


DOCUMENTATION = ROOT / "docs" / "scenario-files.md"


def asking() -> str:
    """The scenario without a prediction that the documentation shows."""
    shown = DOCUMENTATION.read_text("utf-8").split("### Without a prediction\n")[1].split("\n## ")[0]
    return "".join(line.removeprefix("    ") + "\n" for line in shown.splitlines() if line.startswith("    "))


def test_a_scenario_without_predictions_is_judged_by_the_protocol_alone() -> None:
    scenario = parse(asking(), file="x.toml", strict=True)
    assert scenario.predictions == (PROTOCOL_ALONE,)
    assert PROTOCOL_ALONE.loss.committed == "any"


@pytest.mark.parametrize("write", [text_of, brief_text_of])
def test_it_reads_back_the_same(write: object) -> None:
    scenario = parse(asking(), file="x.toml")
    assert callable(write)
    assert parse(write(scenario), file="x.toml") == scenario


def test_its_record_says_what_it_was_judged_by() -> None:
    assert PROTOCOL_ALONE.clause in text_of(parse(asking(), file="x.toml"))


def test_a_misspelt_table_of_predictions_is_a_mistake_and_not_a_question() -> None:
    text = asking() + '[[prediction]]\nkafka = ">=3.9"\nclause = "none"\n'
    with pytest.raises(Problems, match="did you mean 'predictions'"):
        parse(text, file="x.toml")


def test_predictions_for_other_releases_only_are_a_mistake_and_not_a_question() -> None:
    text = asking() + '[[predictions]]\nkafka = "<4"\nclause = "none"\n'
    with pytest.raises(Problems, match="no prediction for this release"):
        parse(text, file="x.toml", strict=True)


def test_the_scenario_of_a_record_may_be_of_a_release_that_it_does_not_predict() -> None:
    """Otherwise such a record could be neither compared with its scenario nor replayed."""
    text = asking() + '[[predictions]]\nkafka = "<4"\nclause = "none"\n'
    assert [one.kafka for one in parse(text, file="scenario.toml", to_run=True).predictions] == ["<4"]
