"""Runs a Python file of the user: a rule, a protocol variant or a property. What goes on for ever is ended.

Such a file runs as the user. So only a command line names it, never a record or a scenario.
"""

from __future__ import annotations

import hashlib
import shlex
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from ebbtide.errors import UsageError
from ebbtide.untrusted.files import UnreadableFile, read_file

_PACKAGE = "ebbtide_own"
ENDS_S = 10
"""Seconds of CPU that a file may take to be loaded, and that one call of its functions may take."""


class OwnCodeError(UsageError):
    """A file of the user is wrong."""


class EndlessError(Exception):
    """Code took more CPU time than it may."""


@contextmanager
def limited_cpu(seconds: float) -> Iterator[None]:
    """Raise `EndlessError` in the block once this process has used so many seconds of CPU in it.

    Within another such block, the limit of the outer one counts. Threads other than the main thread have no limit.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getitimer(signal.ITIMER_PROF)[0]:
        yield
        return

    def give_up(*_: object) -> None:
        raise EndlessError(f"it has not ended after {seconds:g} s of CPU")

    before = signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


class OwnFile(NamedTuple):
    """A file of the user that ran.

    `allowed` says, in errors, what such a file holds, and `next` what to type.
    """

    path: Path
    module: ModuleType
    sha256: str
    allowed: str
    next: str | None = None

    @property
    def name(self) -> str:
        """What the file defines is called as the file, with hyphens."""
        return self.path.stem.replace("_", "-")

    def error(
        self, what: str, got: str, *, allowed: str | None = None, line: int | None = None, next: str | None = None
    ) -> OwnCodeError:
        """Return the error of a mistake in this file."""
        where = str(self.path) if line is None else f"{self.path}, line {line}"
        allowed = self.allowed if allowed is None else allowed
        return OwnCodeError(what, where=where, got=got, allowed=allowed, next=next or self.next)

    def failure(self, what: str, error: BaseException, **words: str) -> OwnCodeError:
        """Return the error of an exception that came through this file."""
        return self.error(what, f"{type(error).__name__}: {error}", line=self.line_of(error), **words)

    def raised(self, error: BaseException) -> bool:
        """Return whether a line of this file raised an exception, and not something that it called."""
        places = traceback.extract_tb(error.__traceback__)
        return bool(places) and places[-1].filename == str(self.path)

    def line_of(self, error: BaseException) -> int | None:
        """Return the last line of this file that an exception came through; None: it came through none."""
        own = [one.lineno for one in traceback.extract_tb(error.__traceback__) if one.filename == str(self.path)]
        return own[-1] if own else None


def run_own_file(path: Path, what: str, allowed: str, next: str | None = None) -> OwnFile:
    """Run a file; `what` names it in errors, and `next` what to type then.

    Raises `UsageError` if it has a wrong name, or cannot be read or run.
    """
    if path.suffix != ".py" or not path.stem.isidentifier() or not path.stem.islower():
        letters = "small letters, digits and _, then .py: what the file defines is called as the file"
        raise OwnCodeError(f"a {what} cannot be called so", where=str(path), got=path.name, allowed=letters)
    try:
        content = read_file(path, what=f"the {what}")
    except UnreadableFile as error:
        listed = f"ls {shlex.quote(str(path.parent))}"
        raise OwnCodeError(error.what, where=str(path), got=error.got, allowed=allowed, next=listed) from None
    module = ModuleType(f"{_PACKAGE}.{path.stem}")
    module.__file__ = str(path)
    own = OwnFile(path, module, hashlib.sha256(content).hexdigest(), allowed, next)
    sys.modules[module.__name__] = module
    failure = None
    try:
        with limited_cpu(ENDS_S):
            exec(compile(content, path, "exec"), vars(module))
    except SyntaxError as error:
        failure = own.error(f"the {what} is not Python", str(error.msg), line=error.lineno)
    except (Exception, SystemExit) as error:
        failure = own.failure(f"the {what} cannot be loaded", error)
    if failure is not None:
        raise failure  # without the context of a SystemExit, which is an interrupt
    return own
