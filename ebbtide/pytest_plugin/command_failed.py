"""The error of a command that the plugin ran."""

from __future__ import annotations


class CommandFailed(Exception):
    """The command failed; the message is the end of its output.

    With `mistake` the test asked for something wrong, and the message says what is right.
    """

    def __init__(self, message: str, *, mistake: bool = False) -> None:
        super().__init__(message)
        self.mistake = mistake

    def full_message(self) -> str:
        """Return the message; it says so if the harness failed."""
        return str(self) if self.mistake else f"the harness failed: {self}"
