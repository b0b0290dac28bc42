"""The words that an error shows for a mistyped word: few, and the nearest first."""

from __future__ import annotations

from ebbtide.shown_text import plural
from ebbtide.suggestions import (
    allowed_words,
    bracketed_suggestion,
    did_you_mean,
    meant_name,
    nearest_names,
    nearest_words,
)

KINDS = ["kill", "stop", "start", "pause", "resume", "restart", "rolling", "power-loss", "fill-disk", "heal"]


def test_at_most_three_words_are_near_and_the_nearest_is_first() -> None:
    assert nearest_words("restar", KINDS)[0] == "restart"
    assert len(nearest_words("aaaa", [f"aaa{at}" for at in range(9)])) == 3


def test_a_long_list_is_shown_by_its_nearest_words_and_its_length() -> None:
    assert allowed_words("power-los", KINDS) == "power-loss, ... (10 in all)"
    assert allowed_words("xyz", KINDS) == "one of 10"


def test_a_short_list_is_shown_whole() -> None:
    assert allowed_words("xyz", KINDS[:3]) == "kill, stop, start"


def test_a_word_that_resembles_none_suggests_nothing() -> None:
    assert did_you_mean("xyz", KINDS) == ""
    assert did_you_mean("kil", KINDS) == ", did you mean kill?"
    assert bracketed_suggestion("xyz", KINDS) == ""
    assert bracketed_suggestion("kil", KINDS) == " (did you mean 'kill'?)"
    assert bracketed_suggestion("kil", KINDS, shown={"kill": "kill ROLE"}) == " (did you mean 'kill ROLE'?)"


def test_capitals_do_not_count() -> None:
    assert nearest_words("KILL", KINDS, most=1) == ["kill"]
    assert nearest_words("empty", ["Empty", "Dead"]) == ["Empty"]


def test_the_beginning_of_one_name_means_that_name() -> None:
    assert meant_name("fill", KINDS) == "fill-disk"
    assert nearest_names("fill", KINDS)[0] == "fill-disk"
    assert meant_name("po", KINDS) is None
    assert meant_name("restar", ["restart", "restart-all"]) == "restart"


def test_the_beginning_of_several_names_means_none_of_them_but_names_them() -> None:
    racks = ["rack-power-flushed", "rack-power", "kill"]
    assert meant_name("rack", racks) is None
    assert nearest_names("rack", racks) == ["rack-power", "rack-power-flushed"]


def test_the_beginning_of_a_word_that_is_no_name_means_nothing() -> None:
    assert did_you_mean("lost", ["lost-in-a-long-word"]) == ""


def test_a_very_long_word_is_not_compared() -> None:
    assert nearest_words("kill" * 100_000, KINDS) == []
    assert meant_name("kill" * 100_000, KINDS) is None


def test_one_thing_is_singular_and_thousands_have_commas() -> None:
    assert plural(1, "record") == "1 record"
    assert plural(0, "record") == "0 records"
    assert plural(2000, "record") == "2,000 records"
    assert plural(2, "loss", "losses") == "2 losses"
