"""Clients of a scenario have ids by which a record tells them apart; 0 is the final read's."""

from __future__ import annotations

import pytest

from ebbtide.errors import Problems
from ebbtide.scenario.parse import parse

FILE = """
name = "ids"
title = "t"
kafka = ["4.3.1"]
[topics.t]
[[producers]]
id = 1
topic = "t"
acks = "all"
rate_per_s = 10
[[consumers]]
id = 1
topics = ["t"]
"""


def wrong_places(text: str) -> set[object]:
    with pytest.raises(Problems) as caught:
        parse(text, file="x.toml")
    return {getattr(problem, "where", None) for problem in caught.value.problems}


@pytest.mark.parametrize("id_", ["0", "-1", str(1 << 23)])
@pytest.mark.parametrize("kind", ["producers", "consumers"])
def test_an_id_that_no_record_could_hold_is_refused(kind: str, id_: str) -> None:
    before, after = FILE.split(f"[[{kind}]]\nid = 1")
    assert f"{kind}[0].id" in wrong_places(f"{before}[[{kind}]]\nid = {id_}{after}")


@pytest.mark.parametrize("kind", ["producers", "consumers"])
def test_an_id_twice_is_refused_at_the_second_place(kind: str) -> None:
    client = FILE.split(f"[[{kind}]]")[1].split("[[")[0]
    assert f"{kind}[1].id" in wrong_places(f"{FILE}\n[[{kind}]]{client}")
