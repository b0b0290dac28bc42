"""A scenario file that is not TOML names the line at fault."""

from __future__ import annotations

import pytest

from ebbtide.errors import Problems
from ebbtide.scenario.parse import parse


def test_a_number_of_more_digits_than_python_reads_is_a_mistake_of_the_file() -> None:
    with pytest.raises(Problems, match="not TOML"):
        parse(f"settle_s = {'1' * 5000}", file="f.toml")


@pytest.mark.parametrize(
    ("text", "line", "shown"),
    [
        ('name = "x"\nacks = all\n', 2, "acks = all"),
        ('# x\nname = "x\n[[steps]]\n', 2, 'name = "x'),
        ('name = "x"\nname = "y"\n', 2, 'name = "y"'),
        ('name = "x"\nkafka = [\n"4.3.1",\n', 2, "kafka = ["),
        ('name = "x"\n\ndescription = """\nacks\n', 3, 'description = """'),
    ],
)
def test_a_file_that_is_not_toml_names_the_line_at_fault(text: str, line: int, shown: str) -> None:
    with pytest.raises(Problems) as caught:
        parse(text, file="f.toml")
    told = caught.value.render().splitlines()
    assert told[1:3] == ["  1. not TOML", f"     where:   f.toml (line {line})"]
    assert told[3].endswith(f": {shown}")


@pytest.mark.parametrize("text", ['name = "x"\nname = "y"\n', "[cluster]\nbrokers = 3\n[cluster]\nbrokers = 3\n"])
def test_a_duplicated_key_or_table_is_allowed_once(text: str) -> None:
    with pytest.raises(Problems, match="allowed: each key and each table once"):
        parse(text, file="f.toml")


def test_a_value_that_toml_allows_and_ebbtide_does_not_read_has_no_line() -> None:
    with pytest.raises(Problems, match=r"where:   f\.toml\n"):
        parse(f"settle_s = {'[' * 70}{']' * 70}", file="f.toml")


def test_a_file_that_is_too_long_to_search_is_not_toml_without_a_line() -> None:
    with pytest.raises(Problems, match=r"where:   f\.toml\n"):
        parse("# x\n" * 2_000 + "kafka = [", file="f.toml")
