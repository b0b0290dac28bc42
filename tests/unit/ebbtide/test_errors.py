"""What an error shows of values that somebody else wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from ebbtide.errors import SHOWN_MAX, Problems, UsageError
from harness.cli.main import main


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
    error.add_line(3)
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
