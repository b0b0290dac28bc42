"""What a wrong scenario file is told, word for word: every sentence stands in one file, which is read in review.

Other tests assert where a problem is. A case of the file is lines that take the place of others in a plain scenario:
`<` are those that go (by default the first new one), `>` those that come, `+` those of one step more, and below is what
is said of them.
`.venv/bin/python tests/unit/ebbtide/scenario/test_sentences.py` writes what is said now.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ebbtide.errors import Problems
from ebbtide.scenario.parse import parse

SENTENCES = Path(__file__).parents[3] / "data" / "sentences" / "scenario.txt"
PLAIN = """\
title = "t"
kafka = ["4.3.1"]
name = "n"
[cluster]
brokers = 3
[topics.t]
partitions = 3
min_isr = 2
[[producers]]
id = 1
topic = "t"
acks = "all"
count = 100000
[[consumers]]
id = 1
topics = ["t"]
[[steps]]
step = "wait"
trigger = { acked = 100000 }
deadline_s = 120
[[predictions]]
kafka = ">=3.3"
clause = "c"
loss = { committed = "none" }
"""

LAST = "[[predictions]]"


def said_of(case: str) -> str:
    """Return the lines that a case gives, and below them what is said of the file with them."""
    given = [line for line in case.splitlines() if line.startswith(("< ", "> ", "+ "))]
    new = [line[2:] for line in given if line.startswith("> ")]
    old = "\n".join([line[2:] for line in given if line.startswith("< ")] or new[:1])
    if step := [line[2:] for line in given if line.startswith("+ ")]:
        old, new = LAST, ["[[steps]]", *step, LAST]
    assert old in PLAIN, old
    try:
        parse(PLAIN.replace(old, "\n".join(new), 1), file="x.toml", strict=True)
    except Problems as found:
        return "\n".join([*given, *(problem.render() for problem in found.problems)])
    return "\n".join([*given, "nothing"])


CASES = SENTENCES.read_text().strip("\n").split("\n\n")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.splitlines()[1])
def test_a_wrong_file_is_told_what_stands_in_the_reviewed_file(case: str) -> None:
    assert said_of(case) == case, ".venv/bin/python tests/unit/ebbtide/scenario/test_sentences.py"


if __name__ == "__main__":
    SENTENCES.write_text("\n\n".join(map(said_of, CASES)) + "\n")
