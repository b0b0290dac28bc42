"""Errors a person meets, and the exit codes, which are an interface.

Every error says what went wrong, where, what was got, what is allowed and what to type next. `EbbtideError`
is the only exception that the command turns into a message without a traceback; anything else is a bug in
Ebbtide and ends with `ExitCode.HARNESS_FAILED`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any

COMMAND_LINE = "the command line"
"""Where the mistakes are of `Problems` that were typed."""


class ExitCode(IntEnum):
    """Exit codes of the `ebbtide` command."""

    AS_PREDICTED = 0
    CONTRADICTED = 1
    INCONCLUSIVE = 2
    HARNESS_FAILED = 3
    USAGE = 4

    @classmethod
    def worst(cls, codes: Iterable[ExitCode]) -> ExitCode:
        """What a command that did several things ends with: a proof outweighs that nothing was proven."""
        order = (cls.AS_PREDICTED, cls.INCONCLUSIVE, cls.CONTRADICTED, cls.HARNESS_FAILED, cls.USAGE)
        return max(codes, key=order.index)


class EbbtideError(Exception):
    """One failure, in the words a person needs to mend it.

    `what` is the sentence; `where` the file, key or node; `got` and `allowed` the offending and the legal
    values; `next` the command to type now.
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
        super().__init__(self.render())

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as it is: a kind whose constructor takes other arguments would not come out of a pipe again."""
        return type(self).__new__, (type(self), *self.args), vars(self)

    def happened_at(self, where: str) -> None:
        """Say where, unless it says so already."""
        if self.where is None:
            self.where = where
            self.args = (self.render(),)

    def goes_on_with(self, next: str) -> None:
        """Say what to type next, unless it says so already."""
        if self.next is None:
            self.next = next
            self.args = (self.render(),)

    def render(self) -> str:
        """The message over several lines, labelled; without the leading `error:`."""
        lines = [self.what]
        for label, text in (
            ("where", self.where),
            ("got", self.got),
            ("allowed", self.allowed),
            ("next", self.next),
        ):
            if text is not None:
                lines.append(f"  {label + ':':<9}{text}")
        return "\n".join(lines)


class UsageError(EbbtideError):
    """The command line, a scenario file or a run record is wrong. Kafka may say so of a scenario, when it is run."""

    exit_code = ExitCode.USAGE


class HarnessError(EbbtideError):
    """The harness or its host could not do what was asked; says nothing about Kafka."""

    exit_code = ExitCode.HARNESS_FAILED


class StepImpossible(HarnessError):
    """A step cannot be done to a cluster in the state that the steps before it left: nothing failed."""


class Problems(UsageError):
    """Every problem of one file at once."""

    def __init__(self, file: str, problems: list[EbbtideError], *, next: str | None = None) -> None:
        self.file = file
        self.problems = tuple(problems)
        super().__init__(f"{file}: {len(problems)} problem{'s' if len(problems) != 1 else ''}", where=file, next=next)

    def render(self) -> str:
        """The heading, then each problem indented, then the next command."""
        lines = [self.what]
        for number, problem in enumerate(self.problems, 1):
            first, *rest = problem.render().splitlines()
            lines.append(f"{number:>3}. {first}")
            lines += ["   " + line for line in rest]
        if self.next is not None:
            lines.append(f"  next:    {self.next}")
        return "\n".join(lines)
