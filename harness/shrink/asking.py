"""Asks about candidates, several at once: the journal first, then real runs. What is no answer is asked again."""

from __future__ import annotations

import contextlib
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import NamedTuple

from ebbtide.errors import HarnessError
from ebbtide.scenario.meaning import meaning
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.references import nothing_wrong
from harness.shrink.journal import Decision, Journal

Wanted = tuple[int, str, Scenario]
"""A number, the candidate's name in the journal, and what to run."""
Decide = Callable[[Iterable[Wanted]], Generator[tuple[int, Decision | HarnessError], None, None]]
"""Runs scenarios, asking for the next when there is room, and says of each, in the order in which they end, whether the
finding came again; or how the harness failed."""
Refute = Callable[[Scenario], str | None]
"""Why a scenario cannot show the finding, without a run."""

_TRIES = 2
"""A candidate whose runs the harness failed so often is put aside: it may be what makes it fail."""
_FAILURES_IN_A_ROW = 6
"""So many, of three candidates at least, are the host's."""


class OutOfBudget(Exception):
    """No time is left for another run: what was found so far stands."""


class Candidate(NamedTuple):
    """A scenario to ask about; `time` tells repetitions apart."""

    what: str
    scenario: Scenario
    time: int = 0


class Asking:
    """Answers by one journal. `put_aside`: how many candidates the harness could not run."""

    def __init__(
        self,
        *,
        decide: Decide,
        refute: Refute,
        journal: Journal,
        time_left_s: Callable[[], float],
        note: Callable[[str], None],
    ) -> None:
        self._decide = decide
        self._refute = refute
        self._journal = journal
        self._time_left_s = time_left_s
        self._note = note
        self._failed: Counter[str] = Counter()
        self._in_a_row = 0
        self.last_run_s = 0.0

    @property
    def put_aside(self) -> int:
        """How many candidates were given up, since their runs failed."""
        return sum(count >= _TRIES for count in self._failed.values())

    def first(self, candidates: Iterable[Candidate], *, reserve_s: Callable[[float], float]) -> Candidate | None:
        """The first that shows the finding, in their order; whether more are asked about changes nothing in that.

        `reserve_s`: how much time is to be left, by how long a run takes. Raises `OutOfBudget`, and `HarnessError`
        where the harness failed again and again.
        """
        asked: list[Candidate] = []
        answers: dict[int, bool] = {}
        for at, shows in self._answers(candidates, asked, lambda: self._time_left_s() - reserve_s(self.last_run_s)):
            answers[at] = shows
        return asked[min(at for at, shows in answers.items() if shows)] if any(answers.values()) else None

    def rate(self, candidates: Iterable[Candidate]) -> list[bool]:
        """The answer to each, or to fewer where the time does not suffice; to one at least."""
        asked: list[Candidate] = []
        answers: dict[int, bool] = {}

        def time_left_s() -> float:
            return self._time_left_s() if asked[1:] else 1.0

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
        """Number in `asked`, which it fills, and answer; ends with the first yes unless `all_of_them` are wanted."""
        waiting = iter(candidates)
        again: deque[int] = deque()
        known: deque[tuple[int, bool]] = deque()
        seen: set[str] = set()
        found = spent = False

        def wanted() -> Iterator[Wanted]:
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
                    answer = self._without_run(candidate, key)
                    if answer is not None:
                        known.append((at, answer))
                        found = found or answer
                        continue
                if time_left_s() <= 0:
                    spent = True
                    return
                yield at, self._journal.key_of(asked[at].scenario, asked[at].time), asked[at].scenario

        while True:
            with contextlib.closing(self._decide(wanted())) as ends:
                for at, end in ends:
                    if isinstance(end, HarnessError):
                        if self._failure(asked[at], end):
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

    def _without_run(self, candidate: Candidate, key: str) -> bool | None:
        """What is known already; None: it takes a run."""
        if next(iter(meaning(candidate.scenario, nothing_wrong)), None) is not None:
            return False
        if (why := self._refute(candidate.scenario)) is not None:
            self._note(f"no   {candidate.what}: {why}")
            return False
        if (decision := self._journal.get(key)) is not None:
            self._told(candidate, decision)
            return decision.shows
        return False if self._failed[key] >= _TRIES else None

    def _keep(self, candidate: Candidate, decision: Decision) -> None:
        self._in_a_row = 0
        self.last_run_s = decision.took_s
        self._journal.put(self._journal.key_of(candidate.scenario, candidate.time), candidate.what, decision)
        self._told(candidate, decision)

    def _told(self, candidate: Candidate, decision: Decision) -> None:
        why = f": {decision.why}" if decision.why else ""
        self._note(f"{'yes ' if decision.shows else 'no  '} {candidate.what}{why} ({decision.took_s:.0f} s)")

    def _failure(self, candidate: Candidate, error: HarnessError) -> bool:
        """Whether to try again: a failure of the harness says nothing of the candidate, and is not kept."""
        key = self._journal.key_of(candidate.scenario, candidate.time)
        self._failed[key] += 1
        self._in_a_row += 1
        if self._in_a_row >= _FAILURES_IN_A_ROW:
            raise HarnessError(
                f"the shrink stopped: the harness failed {self._in_a_row} times in a row",
                where=error.where,
                got=error.what,
                next="ebbtide doctor; then the same command goes on: every decision is kept, and no failure",
            )
        tried_again = self._failed[key] < _TRIES
        self._note(f"?    {candidate.what}: {error.what}; {'once more' if tried_again else 'put aside'}")
        return tried_again
