"""Prints what became of each mutant as it is known, and sums up at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from time import perf_counter


class Fates:
    """The mutants so far; `equivalent` has the reason of each one that nothing can notice."""

    def __init__(self, equivalent: Mapping[str, str]) -> None:
        self._equivalent = equivalent
        self._began = perf_counter()
        self.known: list[tuple[str, str | None]] = []
        """Each mutant, and what noticed it."""
        self._counts = Counter({"killed": 0, "equivalent": 0, "SURVIVED": 0})

    def add(self, mutant: str, noticed: str | None, unnoticed: str = "") -> None:
        """Print the fate of a mutant: what noticed it, or that it survived and, if known, why (`unnoticed`)."""
        if noticed is not None:
            fate, reason = "killed", noticed
        elif mutant in self._equivalent:
            fate, reason = "equivalent", self._equivalent[mutant]
        else:
            fate, reason = "SURVIVED", unnoticed
        self.known.append((mutant, noticed))
        self._counts[fate] += 1
        print(f"{fate:<10} {reason:<50} {mutant}", flush=True)

    def end(self) -> int:
        """Print the sums; return the exit code, which is 1 if a mutant survived."""
        sums = ", ".join(f"{count} {fate}" for fate, count in self._counts.items())
        print(f"{sums}, {perf_counter() - self._began:.0f} s")
        return 1 if self._counts["SURVIVED"] else 0
