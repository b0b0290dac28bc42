"""A terminal's console that shows texts as they are: neither markup nor control characters in them do anything."""

from __future__ import annotations

import contextlib
import os
import sys
import termios
from collections.abc import Iterable, Iterator
from typing import IO, Any

from rich.console import Console, RenderableType
from rich.file_proxy import FileProxy
from rich.live import Live
from rich.segment import Segment

from ebbtide.shown_text import escape_controls

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


class PlainTextConsole(Console):
    """A console that reads no markup in strings, and escapes control characters.

    The styles and the cursor movements of its own tables, panels and views still work: it writes past the streams that
    escape the output of everybody else (`ebbtide.streams`). While a view stands (`new_view`), what others print on the
    terminal goes above the view.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **settings)
        self._while_live = contextlib.ExitStack()

    @property
    def file(self) -> IO[str]:
        """The stream itself: rich would unwrap only the outermost of the streams around it."""
        file: Any = self._file or (sys.stderr if self.stderr else sys.stdout)
        while (inner := getattr(file, "rich_proxied_file", None)) is not None:
            file = inner
        return file  # type: ignore[no-any-return]

    @file.setter
    def file(self, new_file: IO[str]) -> None:
        self._file = new_file

    def set_live(self, live: Live) -> bool:
        """Let a view begin (rich calls this)."""
        is_outermost = super().set_live(live)
        if is_outermost and self.is_terminal and self._file is None:
            self._while_live.enter_context(without_echo(self.file))
            for name in ("stdout", "stderr"):
                self._while_live.enter_context(self._shown_above(name))
        return is_outermost

    def clear_live(self) -> None:
        """Let a view end (rich calls this)."""
        super().clear_live()
        if not self._live_stack:
            self._while_live.close()

    @contextlib.contextmanager
    def _shown_above(self, name: str) -> Iterator[None]:
        """Print above the view what others write to `sys.stdout` or `sys.stderr`, if that is a terminal."""
        stream = getattr(sys, name)
        if not stream.isatty():
            yield
            return
        above = _AboveView(self, stream)
        setattr(sys, name, above)
        try:
            yield
        finally:
            above.flush()
            if getattr(sys, name) is above:
                setattr(sys, name, stream)

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        return super()._render_buffer(
            one if one.control else Segment(escape_controls(one.text), one.style, one.control) for one in buffer
        )


class _AboveView(FileProxy):
    """A stream whose lines a console prints above its view. FileProxy alone would obey escape codes in them."""

    def write(self, text: str) -> int:
        super().write(escape_controls(text))
        return len(text)


def new_view(console: Console, renderable: RenderableType | None = None, **settings: Any) -> Live:
    """Return a view that is redrawn in place and vanishes in the end; `settings` are those of rich's `Live`.

    Rich's own routing of other output escapes its own codes, and takes the output of pipes, too.
    """
    own: dict[str, Any] = {"redirect_stdout": False, "redirect_stderr": False}
    return Live(renderable, console=console, transient=True, **own, **settings)
