"""The command does without pandas, also where it is installed."""

from __future__ import annotations

import subprocess
import sys

RUNS = """
import sys
from ebbtide.command import main
sys.argv = ["ebbtide", "--version"]
main()
import pyarrow.dataset
import pyspark.sql
print("pandas" in sys.modules)
"""


def test_the_command_imports_no_pandas() -> None:
    done = subprocess.run([sys.executable, "-c", RUNS], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "False"
