"""Starts Ebbtide's own programs, and makes their packages importable only there.

The packages `cluster`, `faults`, `workloads`, `analysis` and `harness` belong to the command. A wheel has them inside
this package, so `import analysis` in a user's program never finds Ebbtide's; a checkout has them beside it. Each of
Ebbtide's own processes puts their folder first on its `sys.path`. No environment variable does that, because the
user's programs inherit environment variables.
"""

from __future__ import annotations

import contextlib
import pickle
import runpy
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from ebbtide.errors import ExitCode
from ebbtide.signals import defer_signals, ignore_signals, interrupt_on_signals

_HERE = Path(__file__).parent
_INSTALLED = _HERE / "_command"
PACKAGES_FOLDER = _INSTALLED if _INSTALLED.is_dir() else _HERE.parent
"""The folder that has the packages of the command."""

_PYTHON = (sys.executable, "-P")
"""-P: a module in the working folder never replaces a module of a library."""
_MODULE = (*_PYTHON, "-m", "ebbtide.command")
COMMAND = (*_PYTHON, "-m", "ebbtide")
"""The command line that starts `ebbtide`, without its arguments."""


def module_command(module: str) -> list[str]:
    """Return the command line that starts a module of the command as a program."""
    return [*_MODULE, module]


def module_of(argv: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return the module and the arguments of a command line that begins with a `module_command`.

    Raises `ValueError` for another command line.
    """
    if tuple(argv[: len(_MODULE)]) != _MODULE:
        raise ValueError(f"this starts no module of the command: {' '.join(argv)}")
    module, *arguments = argv[len(_MODULE) :]
    return module, arguments


def main() -> int:
    """Run the `ebbtide` command with this process's arguments; return its exit code.

    SIGINT, SIGTERM and SIGHUP end every verb in the same way, from here to the end of the process: everything is
    undone, and the exit code is 3.
    """
    try:
        interrupt_on_signals(ExitCode.HARNESS_FAILED)
        _hide_pandas()
        # Held back: a library may swallow an interrupt of its import.
        with defer_signals():
            find_packages()
            frame = import_module("harness.cli.main")
        return int(frame.main())
    except (KeyboardInterrupt, SystemExit):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # stderr may be closed
            sys.stderr.write("interrupted\n")
            sys.stderr.flush()
        return ExitCode.HARNESS_FAILED
    finally:
        ignore_signals()


def call_in_process(call: bytes, *more: object) -> None:
    """Call a function in a process of the command that multiprocessing has started.

    `call` is the pickled function and its first arguments; `more` are the others, which only multiprocessing can
    hand over. Unpickling imports their modules, and must not import pandas.
    """
    _hide_pandas()
    function, arguments = pickle.loads(call)
    function(*arguments, *more)


def _hide_pandas() -> None:
    """Make pandas look as if it were not installed, in this process.

    PyArrow and PySpark import it where they find it, though the command needs nothing of it. That
    takes longer than reading a small record.
    """
    sys.meta_path.insert(0, _NoPandas())


class _NoPandas(MetaPathFinder):
    """Finds no pandas."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        """Raise `ModuleNotFoundError` for pandas."""
        if fullname == "pandas":
            raise ModuleNotFoundError("the command does without pandas", name=fullname)
        return None


def find_packages() -> None:
    """Put the packages of the command first on this process's path."""
    folder = str(PACKAGES_FOLDER)
    if sys.path[:1] != [folder]:
        sys.path.insert(0, folder)


if __name__ == "__main__":
    find_packages()
    runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
