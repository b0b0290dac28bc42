"""A scenario file that is not TOML names the line at fault."""

from __future__ import annotations

import pytest

from ebbtide.errors import Problems
from ebbtide.scenario.parse import parse


def test_a_number_of_more_digits_than_python_reads_is_a_mistake_of_the_file() -> None:
    with pytest.raises(Problems, match="not TOML"):
        parse(f"settle_s = {'1' * 5000}", file="f.toml")


def test_a_value_that_toml_allows_and_ebbtide_does_not_read_has_no_line() -> None:
    with pytest.raises(Problems, match=r"where:   f\.toml\n"):
        parse(f"settle_s = {'[' * 70}{']' * 70}", file="f.toml")


def test_a_file_that_is_too_long_to_search_is_not_toml_without_a_line() -> None:
    with pytest.raises(Problems, match=r"where:   f\.toml\n"):
        parse("# x\n" * 2_000 + "kafka = [", file="f.toml")
