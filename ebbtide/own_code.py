"""Runs a Python file of the user: a rule, a protocol variant or a property.

Such a file runs as the user. So only a command line names it, never a record or a scenario.
"""

from __future__ import annotations

import hashlib
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from ebbtide.errors import UsageError
from ebbtide.untrusted.files import read_file

_PACKAGE = "ebbtide_own"


class OwnFile(NamedTuple):
    """A file of the user that ran.

    `allowed` says, in errors, what such a file holds.
    """

    path: Path
    module: ModuleType
    sha256: str
    allowed: str

    @property
    def name(self) -> str:
        """What the file defines is called as the file, with hyphens."""
        return self.path.stem.replace("_", "-")

    def error(self, what: str, got: str, *, allowed: str | None = None, line: int | None = None) -> UsageError:
        """Return the error of a mistake in this file."""
        where = str(self.path) if line is None else f"{self.path}, line {line}"
        return UsageError(what, where=where, got=got, allowed=self.allowed if allowed is None else allowed)

    def line_of(self, error: BaseException) -> int | None:
        """Return the last line of this file that an exception came through; None: it came through none."""
        own = [one.lineno for one in traceback.extract_tb(error.__traceback__) if one.filename == str(self.path)]
        return own[-1] if own else None


def run_own_file(path: Path, what: str, allowed: str) -> OwnFile:
    """Run a file; `what` names it in errors. Raises `UsageError` if it has a wrong name, or cannot be read or run."""
    if path.suffix != ".py" or not path.stem.isidentifier() or not path.stem.islower():
        letters = "small letters, digits and _, then .py: what the file defines is called as the file"
        raise UsageError(f"a {what} cannot be called so", where=str(path), got=path.name, allowed=letters)
    content = read_file(path, what=f"the {what}")
    module = ModuleType(f"{_PACKAGE}.{path.stem}")
    module.__file__ = str(path)
    own = OwnFile(path, module, hashlib.sha256(content).hexdigest(), allowed)
    sys.modules[module.__name__] = module
    try:
        exec(compile(content, path, "exec"), vars(module))
    except SyntaxError as error:
        raise own.error(f"the {what} is not Python", str(error.msg), line=error.lineno) from None
    except (Exception, SystemExit) as error:
        got = f"{type(error).__name__}: {error}"
        raise own.error(f"the {what} cannot be loaded", got, line=own.line_of(error)) from None
    return own
