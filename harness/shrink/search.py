"""Searches for a smaller scenario.

It tries guesses, then fewer steps, then a smaller cluster and workload.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from ebbtide.errors import EbbtideError, ExitCode
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.validate import validate
from harness.shrink.answers import Candidate, CandidateAnswers, Decide, OutOfBudget
from harness.shrink.ddmin import Subset, ddmin
from harness.shrink.journal import Journal
from harness.shrink.states import RecordedStep
from harness.shrink.steps import acked_at_first, kinds_text, with_steps, without_invalid_steps
from harness.shrink.topology import LostPartition, Reduction, reductions, wait_reductions

_TRIES_OF_WHOLE = 2
_REFUSALS_OF_A_STEP = 2
"""A step stays after so many runs without it missed the finding: a single run may miss what most runs show."""


class NotReproduced(EbbtideError):
    """The recorded schedule did not reproduce its finding."""

    exit_code = ExitCode.INCONCLUSIVE


class SearchCutShort(NotReproduced):
    """The budget ended before a run reproduced the finding."""


class SmallerScenario(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario that shows the finding in `shown` of its `times` confirming runs.

    `indices`: which step of the record each of its steps is. `finished`: the search is complete, and the same search
    again would find no other. `gave_way`: the search found a smaller scenario, which showed the finding too seldom.
    """

    scenario: Scenario
    indices: tuple[int, ...] = ()
    shown: int
    times: int
    finished: bool
    gave_way: bool = False


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule to shrink, and its steps in the record.

    `was` is empty, or as long as the steps. `indices`: which step of the record each is; empty: all, in order.
    """

    scenario: Scenario
    was: tuple[RecordedStep, ...] = ()
    indices: tuple[int, ...] = ()

    def indices_of(self, kept: Iterable[int]) -> tuple[int, ...]:
        """Return which steps of the record the steps `kept` are."""
        return tuple(self.indices[at] if self.indices else at for at in kept)

    def part(self, kept: Sequence[int], *, patient: bool = False) -> Start:
        """Return the start with only the steps `kept`."""
        scenario = with_steps(self.scenario, kept, acked_at_first(self.scenario), was=self.was, patient=patient)
        was = tuple(self.was[at] for at in kept) if self.was else ()
        return Start(scenario=scenario, was=was, indices=self.indices_of(kept))

    def without_invalid_steps(self, kept: Sequence[int]) -> tuple[int, ...]:
        """Return `kept` without the steps that are invalid without those left out."""
        return without_invalid_steps(self.scenario, kept, acked_at_first(self.scenario))


class Search:
    """One search.

    `found` are the candidates that showed the finding, each smaller than the last.
    """

    def __init__(
        self,
        *,
        decide: Decide,
        journal: Journal,
        time_left_s: Callable[[], float],
        note: Callable[[str], None],
        jobs: int = 1,
    ) -> None:
        self._journal = journal
        self._answers = CandidateAnswers(decide=decide, journal=journal, time_left_s=time_left_s, note=note)
        self._time_left_s = time_left_s
        self._note = note
        self._jobs = jobs
        self._times = 0
        self.found: list[Candidate] = []

    def carry_out(
        self, starts: Sequence[Start], guesses: Sequence[Sequence[int]], blamed: LostPartition | None, times: int
    ) -> SmallerScenario:
        """Shrink the first of `starts` that shows the finding, and confirm the result.

        The confirmation has `times` runs. All `starts` have the same steps, with other triggers. Raises
        `NotReproduced`, and `HarnessError`.
        """
        self._times = times
        finished = True
        try:
            current = self._begin(starts, guesses)
            # A smaller cluster with fewer records makes all later runs quicker, so this is worth one early try.
            current = msgspec.structs.replace(current, scenario=self._smaller_at_once(current, blamed))
            smaller = self._fewer_steps(current)
            smaller = self._smaller(smaller, reductions(smaller.scenario, blamed), "smaller")
            self._smaller(smaller, wait_reductions(smaller.scenario), "waits merged into the next step")
        except OutOfBudget:
            finished = False
            self._note("the budget is spent: the search stops, and the same command continues it")
        if not self.found:
            why = "no run reproduced it" if finished else "the budget was spent before a run reproduced the finding"
            raise (NotReproduced if finished else SearchCutShort)(
                why,
                next="a larger --budget, or `ebbtide replay` to see where the runs depart",
            )
        return self._confirm(times, finished)

    def _begin(self, starts: Sequence[Start], guesses: Sequence[Sequence[int]]) -> Start:
        """Return the first guess that shows the finding, or the whole schedule.

        Raises `NotReproduced`.
        """
        parts: list[tuple[Candidate, Start]] = []
        for guess in guesses:
            for start in starts:
                kept = start.without_invalid_steps(guess)
                if kept and len(kept) < len(start.scenario.steps):
                    part = start.part(kept)
                    what = f"guess: {kinds_text(part.scenario.steps)}"
                    parts.append((Candidate(what, part.scenario, indices=part.indices), part))
        before = self._failed_tries(starts)
        for time in range(before, before + _TRIES_OF_WHOLE):
            for start in starts:
                everything = start.indices_of(range(len(start.scenario.steps)))
                parts.append((Candidate("the whole schedule", start.scenario, time, everything), start))
        found = self._first(candidate for candidate, _ in parts)
        if found is None:
            raise NotReproduced(
                f"the recorded schedule did not reproduce its finding in {_TRIES_OF_WHOLE * len(starts)} runs",
                where=str(self._journal.folder),
                got=self._journal.way or None,
                next="ebbtide replay RUN --times 5    (says how often it comes, and where the runs depart); "
                "or the same command again, which tries as often once more",
            )
        return next(part for candidate, part in parts if candidate is found)

    def _failed_tries(self, starts: Sequence[Start]) -> int:
        """Count the earlier failed tries of the whole schedule.

        They are calls that ended in `NotReproduced`. A new call tries again: a rare finding may
        come the next time.
        """

        def is_refused(time: int) -> bool:
            known = [self._journal.get(self._journal.key_of(start.scenario, time)) for start in starts]
            return all(one is not None and not one.shows for one in known)

        times = 0
        while all(is_refused(time) for time in range(times, times + _TRIES_OF_WHOLE)):
            times += _TRIES_OF_WHOLE
        return times

    def _fewer_steps(self, start: Start) -> Candidate:
        patient = False

        def first(parts: Iterable[Subset]) -> Subset | None:
            nonlocal patient
            found = self._first_part(parts, scenario_of)
            patient = patient or (found is not None and found.time > 0)
            return found

        def scenario_of(part: Subset) -> Candidate:
            # A refused candidate may have lacked only the time that the steps left out took.
            smaller = start.part(part.kept, patient=patient or part.time > 0)
            what = f"{len(part.kept)} steps: {kinds_text(smaller.scenario.steps)}"
            return Candidate(what, smaller.scenario, part.time, smaller.indices)

        ddmin(
            tuple(range(len(start.scenario.steps))),
            first,
            whole=start.without_invalid_steps,
            refusals=_REFUSALS_OF_A_STEP,
        )
        return self.found[-1]

    def _smaller_at_once(self, start: Start, blamed: LostPartition | None) -> Scenario:
        """Try all reductions of cluster and clients at once, then a part of them.

        The part does not touch the partition that lost records.
        """
        scenario = start.scenario
        wanted = reductions(scenario, blamed)
        everything, gentle = (
            _apply_valid(scenario, wanted)[0],
            _apply_valid(scenario, [one for one in wanted if one.gentle])[0],
        )
        indices = start.indices_of(range(len(scenario.steps)))
        tried = {
            "all reductions at once": everything,
            "all reductions that do not touch the partition that lost": gentle,
        }
        found = self._first(Candidate(what, one, indices=indices) for what, one in tried.items() if one != scenario)
        return scenario if found is None else found.scenario

    def _smaller(self, before: Candidate, wanted: Sequence[Reduction], what: str) -> Candidate:
        """Apply as many reductions as still show the finding.

        Tries all at once first, then delta debugging.
        """

        def scenario_of(part: Subset) -> Candidate:
            left_out = [one for at, one in enumerate(wanted) if at not in part.kept]
            smaller, dropped = _apply_valid(before.scenario, left_out)
            indices = tuple(index for at, index in enumerate(before.indices) if at not in dropped)
            said = f"{what}: without {', '.join(one.what for one in left_out)}"
            return Candidate(said, smaller, part.time, indices)

        def first(parts: Iterable[Subset]) -> Subset | None:
            return self._first_part(parts, scenario_of)

        if scenario_of(Subset(())).scenario != before.scenario and first([Subset(())]) is None:
            # Reversed, so that the reduction that saves the most is tried first: a pass begins at the end.
            ddmin(tuple(reversed(range(len(wanted)))), first)
        return self.found[-1]

    def _first_part(self, parts: Iterable[Subset], candidate_of: Callable[[Subset], Candidate]) -> Subset | None:
        offered: list[tuple[Candidate, Subset]] = []
        same: list[Subset] = []

        def candidates() -> Iterator[Candidate]:
            for part in parts:
                candidate = candidate_of(part)
                if candidate.scenario == self.found[-1].scenario:
                    # This part changes nothing, such as a wait that was merged already: it shows the finding.
                    same.append(part)
                    return
                offered.append((candidate, part))
                yield candidate

        found = self._first(candidates())
        if found is None:
            return same[0] if same else None
        return next(part for candidate, part in offered if candidate is found)

    def _first(self, candidates: Iterable[Candidate]) -> Candidate | None:
        # The confirming runs need a part of the budget.
        rounds = math.ceil(self._times / self._jobs) if self.found else 0
        found = self._answers.first(candidates, reserve_s=lambda run_s: rounds * run_s)
        if found is not None:
            self.found.append(found)
        return found

    def _confirm(self, times: int, finished: bool) -> SmallerScenario:
        """Return the smallest scenario that shows the finding in most of its runs.

        If no scenario does so in more than half of its runs, returns the best one.
        """
        best: SmallerScenario | None = None
        left = list(self.found)
        while left:
            candidate = left.pop()
            scenario = candidate.scenario
            # These numbers are far from those of tries of the whole schedule and of repetitions.
            runs = (Candidate(f"confirming, run {time}", scenario, 100 + time) for time in range(1, times + 1))
            answers = self._answers.rate(runs)
            shown = sum(answers)
            self._note(f"confirmed: {shown} of {len(answers)} runs of {len(scenario.steps)} steps")
            if best is None or shown > best.shown:
                best = SmallerScenario(
                    scenario=scenario,
                    indices=candidate.indices,
                    shown=shown,
                    times=len(answers),
                    finished=finished,
                )
            if shown * 2 > len(answers):
                break
            if not self._answers.is_time_for_a_run(self._time_left_s()):
                # With more time, more runs would confirm this scenario, or an earlier one.
                finished = finished and not left and len(answers) == times
                break
        assert best is not None, "the search has found at least one scenario"
        finished = finished and not self._answers.given_up_count
        return msgspec.structs.replace(best, finished=finished, gave_way=best.scenario != self.found[-1].scenario)


def _apply_valid(scenario: Scenario, wanted: Sequence[Reduction]) -> tuple[Scenario, frozenset[int]]:
    """Return the scenario with these reductions, and the indices of the steps that went."""
    dropped: set[int] = set()
    for one in wanted:
        smaller = one.apply(scenario)
        # Leave out a reduction that is invalid together with those before it.
        if smaller is not None and next(iter(validate(smaller)), None) is None:
            scenario = smaller
            if one.drops is not None:
                dropped.add(one.drops)
    return scenario, frozenset(dropped)
