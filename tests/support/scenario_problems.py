"""The problems of scenario files."""

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


def problems_of(text: str, *, strict: bool = False, to_run: bool = False) -> dict[str, str]:
    """What is said of a file, by place; nothing: it is valid."""
    try:
        parse(text, file="x.toml", strict=strict, to_run=to_run)
    except Problems as found:
        return {str(one.where): one.render() for one in found.problems}
    return {}


def problems(
    *steps: str,
    cluster: str = "",
    producer: str = "",
    prediction: str = "",
    kafka: str = "4.3.1",
    strict: bool = False,
    to_run: bool = False,
) -> dict[str, str]:
    """See `problems_of`; `kafka` are releases, with a space between them."""
    listed = "".join(f"[[steps]]\n{step}\n" for step in steps)
    file = (
        FILE.replace("4.3.1", kafka.replace(" ", '", "')).replace("count = 10", f"count = 10\n{producer}") + prediction
    )
    return problems_of(cluster + file.replace("{steps}", listed), strict=strict, to_run=to_run)
