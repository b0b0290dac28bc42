"""YAML of somebody else: texts with lines, and one error for what has no end or no sense."""

from __future__ import annotations

from pathlib import Path

import pytest

from ebbtide.errors import UsageError
from ebbtide.untrusted.yaml_files import read_documents

FILE = Path("a.yaml")


def test_values_are_texts_with_their_lines() -> None:
    first, second = read_documents(FILE, b"a: 2.10\nb: [yes, 0x1f]\n---\n# none\nd: ~\ne: 2026-11-30\n")
    assert (first.at("a").text, first.at("a").line) == ("2.10", 1)
    assert [one.text for one in first.at("b").items] == ["yes", "0x1f"]
    assert (second.at("d").content, second.at("e").text, second.at("e").line) == (None, "2026-11-30", 6)
    assert second.at("no", "such").text is None


def test_own_entries_count_before_merged_ones() -> None:
    (found,) = read_documents(FILE, b"x: &x {a: 1, b: 1}\ny: &y {b: 2, c: 2}\nz:\n  <<: [*x, *y]\n  c: 3\n")
    assert {name: one.text for name, one in found.at("z").table.items()} == {"a": "1", "b": "1", "c": "3"}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"a: &a [*a]\n", "stands for a part of itself"),
        (b"- " * 5000, "nested too deep"),
        (b"a: [1\nb: 2\n", "broken YAML"),
        (b"a: \x07\n", "broken YAML"),
        (b"\xff\xfe\xff", "not UTF-8"),
        (b"? [a]\n: 1\n", "a key is no text"),
        (b"a: 1\na: 2\n", "the same key twice"),
        (b"a: !!python/object/apply:os.system [x]\nb: *none\n", "broken YAML"),
    ],
)
def test_a_wrong_file_is_one_error(content: bytes, says: str) -> None:
    with pytest.raises(UsageError) as refused:
        list(read_documents(FILE, content))
    assert says in refused.value.render()
    assert "a.yaml" in refused.value.render()


def test_aliases_of_aliases_stay_small() -> None:
    lines = ["a0: &a0 {k: 1}", *(f"a{at}: &a{at} [*a{at - 1}, *a{at - 1}]" for at in range(1, 60))]
    (found,) = read_documents(FILE, "\n".join(lines).encode())
    assert len(found.table) == 60
