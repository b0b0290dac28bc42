"""Clients of a scenario have ids by which a record tells them apart; 0 is the final read's."""

from __future__ import annotations

import pytest
from scenario_problems import problems_of

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


@pytest.mark.parametrize("id_", ["0", "-1", str(1 << 23)])
@pytest.mark.parametrize("kind", ["producers", "consumers"])
def test_an_id_that_no_record_could_hold_is_refused(kind: str, id_: str) -> None:
    before, after = FILE.split(f"[[{kind}]]\nid = 1")
    assert f"{kind}[0].id" in problems_of(f"{before}[[{kind}]]\nid = {id_}{after}")


@pytest.mark.parametrize("kind", ["producers", "consumers"])
def test_an_id_twice_is_refused_at_the_second_place(kind: str) -> None:
    client = FILE.split(f"[[{kind}]]")[1].split("[[")[0]
    assert f"{kind}[1].id" in problems_of(f"{FILE}\n[[{kind}]]{client}")
