"""The error of a command that the plugin ran."""

from __future__ import annotations

import re
from pathlib import Path

_LINE_NUMBER = re.compile(r"^( *where: .*) \(line \d+\)$", re.MULTILINE)


class CommandFailed(Exception):
    """The command failed; the message is the end of its output.

    With `mistake` the test asked for something wrong, and the message says what is right.
    """

    def __init__(self, message: str, *, mistake: bool = False) -> None:
        super().__init__(message)
        self.mistake = mistake

    def about(self, name: str, file: Path) -> CommandFailed:
        """Return the same error about `name`: the plugin wrote the file, and the author of the test has none.

        The lines of the file are left out, and so is a command that takes it.
        """
        lines = [line for line in str(self).splitlines() if not (line.startswith("  next: ") and str(file) in line)]
        text = _LINE_NUMBER.sub(r"\1", "\n".join(lines)).replace(str(file), name)
        return CommandFailed(text, mistake=self.mistake)

    def full_message(self) -> str:
        """Return the message; it says so if the harness failed."""
        return str(self) if self.mistake else f"the harness failed: {self}"
