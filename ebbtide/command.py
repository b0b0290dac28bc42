"""Starts Ebbtide's own programs, in this process or in another, and nothing else finds the packages that they need.

The packages `cluster`, `faults`, `workloads`, `analysis` and `harness` belong to the command. In a wheel they lie
inside this package, so that `import analysis` in a user's program never finds Ebbtide's; in a checkout they lie
beside it. A process of Ebbtide's own puts their folder first on its own `sys.path`. No environment variable says so,
because programs of the user inherit those.
"""

from __future__ import annotations

import runpy
import sys
from importlib import import_module
from pathlib import Path

_HERE = Path(__file__).parent
_INSTALLED = _HERE / "_command"
PACKAGES_FOLDER = _INSTALLED if _INSTALLED.is_dir() else _HERE.parent
"""The folder with the packages of the command."""

_PYTHON = (sys.executable, "-P")
"""-P: a module in the working folder never stands in for a library's."""
COMMAND = (*_PYTHON, "-m", "ebbtide")
"""The words that start the `ebbtide` command, without its arguments."""


def program(module: str) -> list[str]:
    """The words that start a module of the command as a program, without its arguments."""
    return [*_PYTHON, "-m", "ebbtide.command", module]


def main() -> int:
    """Run the `ebbtide` command with this process's arguments, and return its exit code."""
    find_packages()
    return int(import_module("harness.cli.main").main())


def find_packages() -> None:
    """Put the packages of the command first on this process's path."""
    folder = str(PACKAGES_FOLDER)
    if sys.path[:1] != [folder]:
        sys.path.insert(0, folder)


if __name__ == "__main__":
    find_packages()
    runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
