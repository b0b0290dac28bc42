"""Scenarios that Ebbtide writes for people look as people write them, and mean the same."""

from __future__ import annotations

import pytest

from ebbtide.scenario import catalogue
from ebbtide.scenario.parse import parse
from ebbtide.scenario.write import brief_text_of, text_of


@pytest.mark.parametrize("name", catalogue.names())
def test_a_brief_text_means_the_same(name: str) -> None:
    scenario = catalogue.find(name)
    assert text_of(parse(brief_text_of(scenario), file="brief")) == text_of(scenario)


def test_a_trigger_and_a_config_are_in_one_line_as_in_the_shipped_files() -> None:
    text = brief_text_of(catalogue.find("rack-power-flushed"))
    assert 'config = { "flush.messages" = "1" }' in text
    assert 'trigger = { isr = { partition = "t-0", size = 3 } }' in text or "trigger = { acked = " in text
    assert "[steps.trigger]" not in text
