"""What an election's winner had, and what the other replicas had, when it began to lead."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.controller import ElectionMade


@dataclass(frozen=True)
class Candidate:
    """An election that led without a record, and what each replica had of the record at that moment."""

    election: ElectionMade
    fates: dict[int, str]


@dataclass(frozen=True)
class Lead:
    """An election: the records that its winner had, and each replica's fate for all others.

    `led`: whether the winner began to lead. `is_doubtful`: nothing shows whether it did. Nothing of its epoch was seen,
    and its broker ended or was hindered about that time.
    """

    election: ElectionMade
    has: frozenset[int]
    fates: dict[int, dict[int, str]]
    led: bool = True
    is_doubtful: bool = False
