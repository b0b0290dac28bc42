"""The problems of a scenario file with some steps."""

from __future__ import annotations

from ebbtide.errors import Problems
from ebbtide.scenario.parse import parse

FILE = """
name = "x"
title = "x"
description = "x"
kafka = ["4.3.1"]
[topics.t]
[topics.u]
[[producers]]
id = 1
topic = "t"
count = 10
{steps}
[[predictions]]
kafka = ">=3.3"
clause = "x"
"""


def problems(*steps: str, cluster: str = "") -> dict[str, str]:
    text = cluster + FILE.format(steps="".join(f"[[steps]]\n{step}\n" for step in steps))
    try:
        parse(text, file="x.toml")
    except Problems as found:
        return {str(one.where): one.render() for one in found.problems}
    return {}
