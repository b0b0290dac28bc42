"""A key in the wrong table of a scenario file is reported with the table where it belongs."""

from __future__ import annotations

import pytest

from ebbtide.errors import Problems
from ebbtide.scenario import catalogue
from ebbtide.scenario.key_places import place_of_key
from ebbtide.scenario.parse import parse
from ebbtide.scenario.write import text_of

HEALTHY = text_of(catalogue.find("healthy"))
AFTER = "under [[steps]] as trigger = { after = ... }"
TOP = "at the top of the file, before the first table"


def problem_at(text: str, where: str) -> str:
    with pytest.raises(Problems) as caught:
        parse(text, file="s.toml")
    (found,) = (one.render() for one in caught.value.problems if getattr(one, "where", None) == where)
    return found


@pytest.mark.parametrize(
    ("text", "where", "place"),
    [
        ('features = { "kraft.version" = 1 }\n' + HEALTHY, "features", "under [cluster] or [[predictions]]"),
        ("brokers = 3\n" + HEALTHY, "brokers", "under [cluster]"),
        ("min_isr = 2\n" + HEALTHY, "min_isr", "under [topics.NAME]"),
        ("rate_per_s = 9\n" + HEALTHY, "rate_per_s", "under [[producers]]"),
        ('cause = "unclean-election"\n' + HEALTHY, "cause", "under [predictions.loss]"),
        (HEALTHY.replace("[cluster]\n", "[cluster]\nsettle_s = 9\n"), "cluster.settle_s", TOP),
        (HEALTHY + '\n[[steps]]\nstep = "heal"\nbrokers = 3\n', "steps[1].brokers", "under [cluster]"),
        (HEALTHY + "\n[[steps]]\nstep = 'hael'\nmin_isr = 3\n", "steps[1].min_isr", "under [topics.NAME]"),
        (HEALTHY + "\n[[steps]]\nstep = 'heal'\nafter = '2s'\n", "steps[1].after", AFTER),
        (HEALTHY + "\n[[steps]]\nstep = 'hael'\nafter = '2s'\n", "steps[1].after", AFTER),
        ("after = '2s'\n" + HEALTHY, "after", AFTER),
        ("hw_at_least = 3\n" + HEALTHY, "hw_at_least", "under [[steps]] as trigger = { hw_at_least = ... }"),
    ],
)
def test_a_key_in_the_wrong_table_is_reported_with_the_right_one(text: str, where: str, place: str) -> None:
    assert problem_at(text, where).startswith(f"unknown key here: it belongs {place}\n")


def test_the_beginning_of_a_key_of_its_table_is_a_slip_in_that_table() -> None:
    found = problem_at(HEALTHY.replace("[[producers]]\n", "[[producers]]\nrate = 9\n"), "producers[0].rate")
    assert found.startswith("unknown key\n")
    assert "(did you mean 'rate_per_s'?)" in found


def test_a_key_of_a_table_and_of_the_whole_file_belongs_to_either() -> None:
    assert place_of_key("name") == f"under [[steps]], or {TOP}"


@pytest.mark.parametrize("key", ["nonsense", "topic_name", ""])
def test_a_key_of_no_table_belongs_nowhere(key: str) -> None:
    assert place_of_key(key) is None
    assert place_of_key("steps") is None
    assert problem_at(f'"{key}" = 1\n' + HEALTHY, key).startswith("unknown key\n")
