"""What an error shows: the nearest words, lines folded between words, and values of somebody else cut short."""

from __future__ import annotations

from pathlib import Path

import pytest

from ebbtide.errors import SHOWN_MAX, Problems, UsageError
from ebbtide.folding import column_widths, fold_line, fold_words
from ebbtide.shown_text import plural
from ebbtide.suggestions import (
    allowed_words,
    bracketed_suggestion,
    did_you_mean,
    meant_name,
    nearest_names,
    nearest_words,
)
from harness.cli.main import main

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


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("the leader lost power", 10, ["the leader", "lost power"]),
        ("one\ntwo three", 20, ["one", "two three"]),
        ("cause last-replica-standing", 14, ["cause", "last-replica-", "standing"]),
        ("last-replica-standing here", 14, ["last-replica-", "standing here"]),
        ("a well-known cause", 12, ["a well-known", "cause"]),
        ("abcdefghij k", 4, ["abcd", "efgh", "ij k"]),
        ("a-bcdefghij", 4, ["a-", "bcde", "fghi", "j"]),
        ("", 10, [""]),
    ],
)
def test_a_text_is_folded_between_words_as_far_as_they_fit(text: str, width: int, lines: list[str]) -> None:
    assert fold_words(text, width) == lines
    assert max(map(len, lines)) <= width


def test_a_path_that_is_too_long_may_stay_whole() -> None:
    assert fold_words("see /a/long-path/of/a-run for more", 10, cuts=False) == [
        "see",
        "/a/long-path/of/a-run",
        "for more",
    ]


@pytest.mark.parametrize(
    ("wanted", "available", "widths"),
    [
        ([5, 5], 20, [5, 5]),
        ([30, 5], 20, [15, 5]),
        ([30, 30], 21, [10, 11]),
        ([4, 30, 30], 24, [4, 10, 10]),
        ([9, 9], 0, [1, 1]),
    ],
)
def test_a_column_has_what_it_wants_or_a_share_of_what_others_leave(
    wanted: list[int], available: int, widths: list[int]
) -> None:
    assert column_widths(wanted, available) == widths


def test_a_line_of_blanks_is_empty_however_long_it_is() -> None:
    assert fold_line(" " * 100, 80) == [""]


@pytest.mark.parametrize("label", ["where", "got"])
def test_a_long_value_is_shown_without_its_middle_and_with_its_length(label: str) -> None:
    text = "a" * 100_000 + "end"
    error = UsageError("wrong value", **{label: text})
    for said in (error.render(), error.as_clause(), error.in_one_line(), Problems("x.toml", [error]).render()):
        assert len(said) < SHOWN_MAX
        assert "aend (100,003 characters)" in said
    assert getattr(error, label) == text


def test_a_value_of_some_lines_is_shown_whole() -> None:
    text = "\n".join(["line of a log"] * 100)
    assert text in UsageError("wrong value", got=text).render()


def test_an_error_without_a_place_has_no_line_of_one() -> None:
    error = UsageError("wrong value", got="x")
    error.at_line(3)
    assert error.render() == "wrong value\n  got:     x"


@pytest.mark.parametrize("text", ['{"a":' * 50_000, f'name = "{"x" * 100_000}"\n', f"{'x' * 100_000} = 1\n"])
def test_a_scenario_with_a_huge_value_is_a_short_error(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.toml").write_text(text)
    assert main(["scenarios", "check", str(tmp_path / "x.toml")]) == 4
    assert len(capsys.readouterr().err) < 5 * SHOWN_MAX


def test_the_clause_of_a_file_with_problems_says_where_each_is() -> None:
    inner = UsageError("inner", where="there", next="other")
    outer = UsageError("wrong value", where="a.b", got="1", allowed="2")
    assert Problems("x.toml", [inner, outer]).as_clause() == "x.toml: 2 problems: inner (there); wrong value (a.b) (1)"
