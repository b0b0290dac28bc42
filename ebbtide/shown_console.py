"""A terminal's console that shows texts as they are: neither markup nor control characters in them do anything."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.segment import Segment

from ebbtide.shown_text import escape_controls


class PlainTextConsole(Console):
    """A console that reads no markup in strings, and escapes control characters.

    The styles and the cursor movements of its own tables and panels still work.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **settings)

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        return super()._render_buffer(
            one if one.control else Segment(escape_controls(one.text), one.style, one.control) for one in buffer
        )
