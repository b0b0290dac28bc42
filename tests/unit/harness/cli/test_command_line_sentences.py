"""What a wrong command line is told, word for word: every sentence stands in one file, which is read in review.

A case of the file is a command line, and below it all that is said of it. `RECORD` is a link to a run record.
`.venv/bin/python tests/unit/harness/cli/test_command_line_sentences.py` writes what is said now.
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
SENTENCES = ROOT / "tests" / "data" / "sentences" / "command_line.txt"
RECORD = ROOT / "tests" / "data" / "runs" / "last-replica-standing-3.9.1"
PROMPT = "$ ebbtide"


def said_of(case: str, folder: Path) -> str:
    """Return the command line of a case, and below it what is said of it. Nothing is searched or started."""
    from harness.cli import spec_find
    from harness.cli.main import main

    line = case.splitlines()[0]
    out, said = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
        patch.setattr(spec_find, "answer_to", lambda *_: pytest.fail("searched before"))
        patch.setattr(os, "geteuid", lambda: 0)
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        patch.setenv("COLUMNS", "1000")
        patch.chdir(folder)
        (folder / "RECORD").symlink_to(RECORD)
        code = main(shlex.split(line.removeprefix(PROMPT)))
    assert (code, out.getvalue()) == (4, ""), line
    return "\n".join([line, *(line.rstrip() for line in said.getvalue().splitlines())])


CASES = SENTENCES.read_text().strip("\n").split("\n\n")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.splitlines()[0].removeprefix(PROMPT).strip())
def test_a_wrong_command_line_is_told_what_stands_in_the_reviewed_file(case: str, tmp_path: Path) -> None:
    assert said_of(case, tmp_path) == case, f".venv/bin/python {Path(__file__).relative_to(ROOT)}"


if __name__ == "__main__":
    sys.path.append(str(ROOT))
    now = []
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            now.append(said_of(case, Path(folder)))
    SENTENCES.write_text("\n\n".join(now) + "\n")
