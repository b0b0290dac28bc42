"""One history of a record up to a moment, and the election that it blames."""

from __future__ import annotations

from typing import NamedTuple

from analysis.causes.intervals import CONTRADICTED, Sets
from analysis.causes.table import NEEDS, Permits


class Guilt(NamedTuple):
    """The election that a world blames, why its winner lacked the record, and what allows that.

    `election` None: it is hidden in a gap of the metadata log, or it may be an earlier one.
    """

    election: int | None
    reasons: int
    permits: Permits

    @property
    def is_allowed(self) -> bool:
        """Whether something may allow the election without breaking what KIP-966 promises."""
        return bool(self.permits) and "unexplained" not in self.permits.causes

    @classmethod
    def hidden(cls) -> Guilt:
        """Return the guilt of an election that the metadata log lacks."""
        return cls(None, 0, Permits(needs=frozenset({NEEDS["gap"]})))


class PossibleWorld(NamedTuple):
    """One history up to a moment.

    `holder`: the last election whose leader had the record. `leader`: the election of the broker that leads now (None:
    nobody, or it is not known), which `has_it` or lacks it. `unled`: for each broker, its election by name by which it
    perhaps never led. `gone`: disk losses that have happened although they may come later. `is_unserved`: consumers
    read the record, and no leader up to now served it.
    """

    sets: Sets
    holder: int
    guilt: Guilt | None
    is_committed: bool
    leader: int | None
    has_it: bool
    unled: tuple[tuple[int, int], ...] = ()
    gone: frozenset[int] = frozenset()
    is_unserved: bool = False

    @property
    def guilt_after_return(self) -> Guilt | None:
        """The guilt once the record came back.

        A leader that lacked what it must have broke the protocol, whatever became of the record later.
        """
        guilt = self.guilt
        return guilt if guilt is not None and guilt.reasons & CONTRADICTED and not guilt.permits else None
