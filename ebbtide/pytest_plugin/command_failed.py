"""The error of a command that the plugin ran."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

_LINE_NUMBER = re.compile(r"^(?P<place> *where: +(?P<key>.*)) \(line \d+\)$", re.MULTILINE)


class CommandFailed(Exception):
    """The command failed; the message is the end of its output.

    With `mistake` the test asked for something wrong, and the message says what is right.
    """

    def __init__(self, message: str, *, mistake: bool = False) -> None:
        super().__init__(message)
        self.mistake = mistake

    def about(
        self,
        name: str,
        file: Path,
        *,
        line_of: Callable[[str], int | None] = lambda _: None,
        next: str | None = None,
    ) -> CommandFailed:
        """Return the same error about `name`: the plugin wrote the file, and the author of the test has none.

        `line_of` returns the author's line of a key of the file, and `next` replaces a command that takes the file.
        Without them, lines and command are left out.
        """
        lines = []
        for line in str(self).splitlines():
            if not (line.startswith("  next: ") and str(file) in line):
                lines.append(line)
            elif next is not None:
                lines.append(f"  next:    {next}")

        def with_line(found: re.Match[str]) -> str:
            line = line_of(found["key"])
            return found["place"] + ("" if line is None else f" (line {line})")

        text = _LINE_NUMBER.sub(with_line, "\n".join(lines)).replace(str(file), name)
        return CommandFailed(text, mistake=self.mistake)

    def full_message(self) -> str:
        """Return the message; it says so if the harness failed."""
        return str(self) if self.mistake else f"the harness failed: {self}"
