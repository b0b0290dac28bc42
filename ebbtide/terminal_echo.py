"""Keeps typed keys off a terminal while a view stands on it."""

from __future__ import annotations

import contextlib
import os
import termios
from collections.abc import Iterator
from typing import IO

_LOCAL_FLAGS = 3
"""Where `termios.tcgetattr` has the flag `ECHO`."""


@contextlib.contextmanager
def without_echo(terminal: IO[str]) -> Iterator[None]:
    """Show no typed key during the block: Enter, or the ^C of Ctrl-C, would move the view that is redrawn in place.

    Keys still do what they do. A process in the background leaves the terminal as it is.
    """
    did_echo = _set_echo(terminal, False)
    try:
        yield
    finally:
        if did_echo:
            _set_echo(terminal, True)


def _set_echo(terminal: IO[str], echoes: bool) -> bool:
    """Let a terminal show typed keys or not; return whether that changed."""
    with contextlib.suppress(OSError, termios.error):  # closed, or no terminal
        fd = terminal.fileno()
        if os.tcgetpgrp(fd) != os.getpgrp():  # to change the settings would stop a process in the background
            return False
        settings = termios.tcgetattr(fd)
        flags = settings[_LOCAL_FLAGS]
        settings[_LOCAL_FLAGS] = flags | termios.ECHO if echoes else flags & ~termios.ECHO
        termios.tcsetattr(fd, termios.TCSANOW, settings)
        return bool(flags & termios.ECHO) != echoes
    return False
