"""A client process starts without PyArrow: a run starts five and more, and PyArrow is a third of their start."""

from __future__ import annotations

import subprocess
import sys

PROGRAMS = ("admin", "consumer", "final_read", "producer", "sampler", "topics")


def test_no_client_program_imports_pyarrow() -> None:
    imports = "\n".join(f"import workloads.{program}" for program in PROGRAMS)
    check = f"import sys\n{imports}\nprint('pyarrow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "False\n"
