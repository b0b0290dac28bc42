"""Settings of a scenario that Kafka does not know or refuses, which only a cluster that is up can say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ebbtide.errors import EbbtideError, Problems, UsageError
from ebbtide.scenario.line_numbers import add_lines


class RefusedByKafka(UsageError):
    """Settings that Kafka does not know or refuses.

    `problems` has them one by one, each with its key as `where`. The code that runs a scenario does not know its file.
    So the verb that read the file finds the lines.
    """

    def __init__(
        self,
        what: str,
        problems: Sequence[EbbtideError],
        *,
        allowed: str,
        next: str = "correct the scenario file, and run it again",
    ) -> None:
        self.problems = tuple(problems)
        places = dict.fromkeys(one.where for one in problems if one.where is not None)
        super().__init__(what, where=", ".join(places), allowed=allowed, next=next)

    def in_file(self, file: str, text: str, next: str) -> Problems:
        """Return the same as an error of the scenario file with this text, with lines.

        `next` is the command to type once the file is right.
        """
        add_lines(text, self.problems)
        return Problems(file, [*self.problems], next=next)


def allowed_or_near(allowed: str, near: Iterable[str]) -> str:
    """Return what is allowed, with the names that were probably meant; empty ones do not count."""
    meant = ", ".join(one for one in near if one)
    return allowed + (f" (did you mean {meant}?)" if meant else "")
