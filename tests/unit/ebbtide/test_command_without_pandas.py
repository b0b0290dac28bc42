"""The command does without pandas, also where it is installed, and without PySpark until an anomaly needs it."""

from __future__ import annotations

import subprocess
import sys

import pytest

COMMAND = """
import sys
from ebbtide.command import main
sys.argv = ["ebbtide", "--version"]
main()
"""


@pytest.mark.parametrize(
    ("imported", "left_out"),
    [
        ("pyarrow.dataset, pyspark.sql", "pandas"),
        ("analysis.judging.many_records, analysis.items, analysis.judge.rules.registry", "pyspark"),
    ],
    ids=["pandas", "what judges a record without anomalies imports no pyspark"],
)
def test_the_command_does_without_what_it_does_not_need(imported: str, left_out: str) -> None:
    script = f"{COMMAND}\nimport {imported}\nprint({left_out!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "False"
