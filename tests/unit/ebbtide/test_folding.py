"""Cells are folded between words, then behind hyphens, and in a word only where nothing else is left."""

from __future__ import annotations

import pytest

from ebbtide.folding import column_widths, fold_line, fold_words


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
