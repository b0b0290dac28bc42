"""Lays out the help: as wide as the terminal, up to 100 columns, and folded between words only."""

from __future__ import annotations

from collections.abc import Iterable

import click

from ebbtide.folding import fold_line, fold_words, shown_width

_WIDTH_MAX = 100
"""Longer lines of prose are hard to read."""
_TERM_MAX = 30


class HelpLayout(click.HelpFormatter):
    """Click's own layout, without its breaks at hyphens and within words."""

    def __init__(self, width: int | None = None, max_width: int | None = None) -> None:
        super().__init__(width=min(shown_width(), _WIDTH_MAX))

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        """Write the usage line; its rest stands below the arguments."""
        head = f"{prefix or ''}{prog} "
        self.write("\n".join(fold_line(head + args, self.width, below=len(head))) + "\n")

    def write_text(self, text: str) -> None:
        """Write paragraphs, which empty lines separate."""
        self.write("\n\n".join(self._folded(part, self.current_indent) for part in text.split("\n\n")) + "\n")

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = _TERM_MAX, col_spacing: int = 2) -> None:
        """Write terms with their texts beside them, or below a term that is too wide."""
        rows = list(rows)
        limit = min(col_max, self.width // 3)
        widths = [len(term) for term, _ in rows if len(term) <= limit]
        indent = self.current_indent + max(widths, default=0) + col_spacing
        for term, text in rows:
            head = " " * self.current_indent + term
            folded = self._folded(text, indent)
            self.write(f"{head:<{indent}}{folded.lstrip()}" if len(term) <= limit else f"{head}\n{folded}")
            self.write("\n")

    def _folded(self, text: str, indent: int) -> str:
        lines = fold_words(text, max(self.width - indent, 1), cuts=False)
        return "\n".join(f"{' ' * indent}{line}".rstrip() for line in lines)


class HelpContext(click.Context):
    """A context whose help has this layout."""

    formatter_class = HelpLayout
