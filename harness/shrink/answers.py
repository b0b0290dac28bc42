"""Says whether a candidate shows the finding.

The answer comes from the journal, or from real runs.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import NamedTuple

from ebbtide.errors import HarnessError
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.validate import validate
from harness.shrink.journal import Decision, Journal

CandidateRun = tuple[int, str, Scenario]
"""A candidate to run: its number, its key in the journal, and its scenario."""
Decide = Callable[[Iterable[CandidateRun]], Generator[tuple[int, Decision | HarnessError], None, None]]
"""Runs candidates, and asks for the next when it has room.

Yields the number of each in the order in which they end, with its decision or the failure of the harness.
"""

_TRIES = 2
"""The search puts a candidate aside after so many failed runs: the candidate may make the harness fail."""
_FAILURES_IN_A_ROW = 6
"""So many failures in a row, of at least three candidates, are failures of the host."""


class OutOfBudget(Exception):
    """No time is left for another run; the search keeps what it found so far."""


class Candidate(NamedTuple):
    """A scenario that may show the finding.

    `time` counts repetitions of the same scenario. `indices`: which step of the record each of its steps is.
    """

    what: str
    scenario: Scenario
    time: int = 0
    indices: tuple[int, ...] = ()


class CandidateAnswers:
    """Answers about the candidates of one search, kept in its journal."""

    def __init__(
        self,
        *,
        decide: Decide,
        journal: Journal,
        time_left_s: Callable[[], float],
        note: Callable[[str], None],
    ) -> None:
        self._decide = decide
        self._journal = journal
        self._time_left_s = time_left_s
        self._note = note
        self._failed: Counter[str] = Counter()
        self._in_a_row = 0
        self.last_run_s = 0.0

    @property
    def given_up_count(self) -> int:
        """How many candidates were put aside because their runs failed."""
        return sum(count >= _TRIES for count in self._failed.values())

    def is_time_for_a_run(self, time_left_s: float) -> bool:
        """Whether a run that takes as long as the last one ends in this time."""
        return time_left_s > 0 and time_left_s >= self.last_run_s

    def first(self, candidates: Iterable[Candidate], *, reserve_s: Callable[[float], float]) -> Candidate | None:
        """Return the first candidate that shows the finding, in their order, or None.

        Running several at once does not change which one is first. `reserve_s` returns how many seconds to keep in
        reserve, given how long a run takes. Raises `OutOfBudget` before a run that would end after the time if it takes
        as long as the last one, and `HarnessError` if the harness failed repeatedly.
        """
        asked: list[Candidate] = []
        answers: dict[int, bool] = {}
        for at, shows in self._answers(candidates, asked, lambda: self._time_left_s() - reserve_s(self.last_run_s)):
            answers[at] = shows
        return asked[min(at for at, shows in answers.items() if shows)] if any(answers.values()) else None

    def rate(self, candidates: Iterable[Candidate]) -> list[bool]:
        """Return the answer to each candidate.

        It returns fewer answers, but at least one, if the next run would end after the time.
        """
        asked: list[Candidate] = []
        answers: dict[int, bool] = {}

        def time_left_s() -> float:
            return self._time_left_s() if asked[1:] else math.inf

        with contextlib.suppress(OutOfBudget):
            for at, shows in self._answers(candidates, asked, time_left_s, all_of_them=True):
                answers[at] = shows
        return [answers[at] for at in sorted(answers)]

    def _answers(
        self,
        candidates: Iterable[Candidate],
        asked: list[Candidate],
        time_left_s: Callable[[], float],
        *,
        all_of_them: bool = False,
    ) -> Iterator[tuple[int, bool]]:
        """Yield the index of each candidate, and whether it shows the finding.

        This fills `asked` with the candidates. Ends with the first yes, unless `all_of_them` is
        set.
        """
        waiting = iter(candidates)
        again: deque[int] = deque()
        known: deque[tuple[int, bool]] = deque()
        seen: set[str] = set()
        found = spent = False

        def to_run() -> Iterator[CandidateRun]:
            nonlocal found, spent
            while True:
                if again:
                    at = again.popleft()
                elif found and not all_of_them:
                    return
                else:
                    candidate = next(waiting, None)
                    if candidate is None:
                        return
                    at = len(asked)
                    asked.append(candidate)
                    key = self._journal.key_of(candidate.scenario, candidate.time)
                    if key in seen:
                        continue
                    seen.add(key)
                    answer = self._answer_without_run(candidate, key)
                    if answer is not None:
                        known.append((at, answer))
                        found = found or answer
                        continue
                if not self.is_time_for_a_run(time_left_s()):
                    spent = True
                    return
                yield at, self._journal.key_of(asked[at].scenario, asked[at].time), asked[at].scenario

        while True:
            with contextlib.closing(self._decide(to_run())) as ends:
                for at, end in ends:
                    if isinstance(end, HarnessError):
                        if self._should_retry(asked[at], end):
                            again.append(at)
                        continue
                    self._keep(asked[at], end)
                    found = found or end.shows
                    yield at, end.shows
            yield from known
            known.clear()
            if spent and (all_of_them or not found):
                raise OutOfBudget
            if spent or not again:
                return

    def _answer_without_run(self, candidate: Candidate, key: str) -> bool | None:
        """Return the answer if it is known already; None if it takes a run."""
        if next(iter(validate(candidate.scenario)), None) is not None:
            return False
        if (decision := self._journal.get(key)) is not None:
            self._note_decision(candidate, decision)
            return decision.shows
        return False if self._failed[key] >= _TRIES else None

    def _keep(self, candidate: Candidate, decision: Decision) -> None:
        self._in_a_row = 0
        self.last_run_s = decision.took_s
        self._journal.put(self._journal.key_of(candidate.scenario, candidate.time), candidate.what, decision)
        self._note_decision(candidate, decision)

    def _note_decision(self, candidate: Candidate, decision: Decision) -> None:
        why = f": {decision.why}" if decision.why else ""
        self._note(f"{'yes ' if decision.shows else 'no  '} {candidate.what}{why} ({decision.took_s:.0f} s)")

    def _should_retry(self, candidate: Candidate, error: HarnessError) -> bool:
        """Count a failure of the harness; return whether to run the candidate again.

        A failure says nothing about the candidate, so the journal does not keep it.
        """
        key = self._journal.key_of(candidate.scenario, candidate.time)
        self._failed[key] += 1
        self._in_a_row += 1
        if self._in_a_row >= _FAILURES_IN_A_ROW:
            raise HarnessError(
                f"the harness failed {self._in_a_row} times in a row: the shrink stopped",
                where=error.where,
                got=error.what,
                next="ebbtide doctor; then the same command continues: decisions are kept, failures are not",
            )
        retry = self._failed[key] < _TRIES
        self._note(f"?    {candidate.what}: {error.what}; {'trying once more' if retry else 'put aside'}")
        return retry
