"""The errors that users read, and the exit codes, which are an interface.

Every error says what is wrong, where, what was found, what is allowed and what to type next. The command prints an
`EbbtideError` as a message without a traceback. Any other exception is a bug in Ebbtide, and the command ends with
`ExitCode.HARNESS_FAILED`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any, Self

from ebbtide.shown_text import escape_controls, without_middle

SHOWN_MAX = 2_000
"""How many characters an error shows of a place and of a wrong value."""

PARTS = ("what", "where", "got", "allowed", "next")
"""The attributes of an error that its message shows."""

COMMAND_LINE = "the command line"
"""The `file` of `Problems` that are mistakes in the typed command."""


class ExitCode(IntEnum):
    """Exit codes of the `ebbtide` command."""

    AS_PREDICTED = 0
    CONTRADICTED = 1
    INCONCLUSIVE = 2
    HARNESS_FAILED = 3
    USAGE = 4

    @classmethod
    def worst(cls, codes: Iterable[ExitCode]) -> ExitCode:
        """Return the exit code of a command that did several things.

        Contradicted outweighs inconclusive.
        """
        order = (cls.AS_PREDICTED, cls.INCONCLUSIVE, cls.CONTRADICTED, cls.HARNESS_FAILED, cls.USAGE)
        return max(codes, key=order.index)


CODES = {0: "done", 3: "the harness or its host failed, or you interrupted it", 4: "wrong usage or an invalid file"}
"""The exit codes of every command; a command may add codes, or give a code another meaning."""
RUN_CODES = {
    0: "as predicted, or judged without a prediction",
    1: "contradicted, or a lost record with --fail-on loss",
    2: "inconclusive",
}
"""The exit codes of a command that judges runs: that of the worst run."""


class EbbtideError(Exception):
    """One failure, with what a user needs to fix it.

    `what` is the sentence; `where` is the file, key or node, and `line` its line in that file; `got` is the wrong value
    and `allowed` the right ones; `next` is the command to type now.
    """

    exit_code: ExitCode = ExitCode.HARNESS_FAILED

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        got: str | None = None,
        allowed: str | None = None,
        next: str | None = None,
    ) -> None:
        self.what = what
        self.where = where
        self.got = got
        self.allowed = allowed
        self.next = next
        self.line: int | None = None
        self.column: int | None = None
        super().__init__(what)

    def __str__(self) -> str:
        """Return the whole message."""
        return self.render()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the attributes: constructors of subclasses take other arguments."""
        return type(self).__new__, (type(self), *self.args), vars(self)

    def add_where(self, where: str) -> None:
        """Set `where`, unless it is set."""
        if self.where is None:
            self.where = where

    def at_line(self, line: int | None, column: int | None = None) -> Self:
        """Set the line of `where` and the column there, from 1, as far as they are known; return the error."""
        if line is not None:
            self.line, self.column = line, column
        return self

    def replace(self, old: str, new: str) -> None:
        """Write `new` for every `old` in the message."""
        for field in PARTS:
            text = getattr(self, field)
            setattr(self, field, text and text.replace(old, new))

    def add_next(self, next: str) -> None:
        """Set `next`, unless it is set."""
        if self.next is None:
            self.next = next

    def as_clause(self) -> str:
        """Return what is wrong, where and what was found, as a part of another message's line."""
        found = "".join(f" ({without_middle(text, SHOWN_MAX)})" for text in (self.where, self.got) if text)
        return escape_controls(" ".join(f"{self.what}{found}".split()))

    def in_one_line(self) -> str:
        """Return the message as one line, for lists of what happened."""
        rest = [f"{label}: {text}" for label, text in (("allowed", self.allowed), ("next", self.next)) if text]
        return "; ".join([self.as_clause(), *(escape_controls(" ".join(one.split())) for one in rest)])

    def render(self) -> str:
        """Return the message: a sentence and up to four labelled lines.

        The leading `error:` is not part of it.
        """
        lines = [self.what]
        where = None if self.where is None else without_middle(self.where, SHOWN_MAX)
        if where is not None and self.line is not None:
            where += f" (line {self.line}" + (")" if self.column is None else f", column {self.column})")
        for label, text in (
            ("where", where),
            ("got", None if self.got is None else without_middle(self.got, SHOWN_MAX)),
            ("allowed", self.allowed),
            ("next", self.next),
        ):
            if text is not None:
                lines.append(f"  {label + ':':<9}{text}")
        return escape_controls("\n".join(lines))


def error_in_one_line(error: Exception) -> str:
    """Return what any error says as one line."""
    return error.in_one_line() if isinstance(error, EbbtideError) else escape_controls(" ".join(str(error).split()))


class UsageError(EbbtideError):
    """The command line, a scenario file or a run record is wrong.

    Kafka may find the mistake in a scenario only when it is run.
    """

    exit_code = ExitCode.USAGE


class HarnessError(EbbtideError):
    """The harness or its host failed. This says nothing about Kafka."""

    exit_code = ExitCode.HARNESS_FAILED


class Disturbed(HarnessError):
    """Something outside of the run interfered with its processes: it ends early, and is inconclusive."""


class NodeEnded(HarnessError):
    """Kafka itself ended a node, by a `fault` that its log calls fatal: the run ends early, and is judged."""

    def __init__(self, what: str, *, node: str, fault: str, where: str | None, got: str, next: str | None) -> None:
        self.node = node
        self.fault = fault
        super().__init__(what, where=where, got=got, next=next)


class StepImpossible(HarnessError):
    """A step cannot act on the cluster in the state that earlier steps left.

    Nothing failed.
    """


class Problems(UsageError):
    """All problems of one file, or of one command line."""

    def __init__(self, file: str, problems: list[EbbtideError], *, next: str | None = None) -> None:
        self.file = file
        self.problems = tuple(problems)
        super().__init__(f"{file}: {len(problems)} problem{'s' if len(problems) != 1 else ''}", where=file, next=next)

    def replace(self, old: str, new: str) -> None:
        """Write `new` for every `old` in the heading and in each problem."""
        for problem in self.problems:
            problem.replace(old, new)
        super().replace(old, new)

    def as_clause(self) -> str:
        """Return the heading and each problem, as a part of another message's line."""
        return f"{escape_controls(self.what)}: {'; '.join(one.as_clause() for one in self.problems)}"

    def render(self) -> str:
        """Return the heading, each problem indented, and the next command."""
        lines = [self.what]
        for number, problem in enumerate(self.problems, 1):
            first, *rest = problem.render().splitlines()
            lines.append(f"{number:>3}. {first}")
            lines += ["   " + line for line in rest]
        if self.next is not None:
            lines.append(f"  next:    {self.next}")
        return escape_controls("\n".join(lines))
