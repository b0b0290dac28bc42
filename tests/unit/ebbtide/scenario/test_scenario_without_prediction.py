"""A scenario may ask without predicting: the protocol alone judges its runs."""

from __future__ import annotations

import pytest
from checkout import ROOT

from ebbtide.errors import Problems
from ebbtide.scenario.model import PROTOCOL_ALONE
from ebbtide.scenario.parse import parse
from ebbtide.scenario.write import brief_text_of, text_of

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
