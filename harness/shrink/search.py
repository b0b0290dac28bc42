"""The search for a smaller scenario: guesses, then steps, then cluster and workload. Whatever decides is passed in."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from ebbtide.errors import EbbtideError, ExitCode
from ebbtide.scenario.meaning import meaning
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.references import nothing_wrong
from harness.shrink.asking import Asking, Candidate, Decide, OutOfBudget, Refute
from harness.shrink.ddmin import Items, Subset, ddmin
from harness.shrink.journal import Journal
from harness.shrink.states import RecordedStep
from harness.shrink.steps import acked_at_first, described, meaningful, with_steps
from harness.shrink.topology import LostPartition, Reduction, merged_waits, reductions

_TRIES_OF_WHOLE = 2
_REFUSALS_OF_A_STEP = 2
"""A step stays only if the finding did not come so often without it: one run may miss what most runs show."""


class NotReproduced(EbbtideError):
    """The schedule as recorded did not show its finding again."""

    exit_code = ExitCode.INCONCLUSIVE


class Smaller(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario that showed the finding, and of how many runs it did in the end.

    `finished`: the search got to its end: the same one again would find no other. `gave_way`: a smaller one was found,
    which showed the finding too seldom; else nothing more could be left out of a finished one, as far as runs say.
    """

    scenario: Scenario
    shown: int
    times: int
    finished: bool
    gave_way: bool = False


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule to shrink, and what its steps were in the record; `was` is empty, or as long as the steps."""

    scenario: Scenario
    was: tuple[RecordedStep, ...] = ()

    def part(self, kept: Sequence[int], *, patient: bool = False) -> Start:
        """With these of its steps only."""
        scenario = with_steps(self.scenario, kept, acked_at_first(self.scenario), was=self.was, patient=patient)
        return Start(scenario=scenario, was=tuple(self.was[at] for at in kept) if self.was else ())

    def meaningful(self, kept: Sequence[int]) -> tuple[int, ...]:
        """`kept` without the steps that make no sense alone."""
        return meaningful(self.scenario, kept, acked_at_first(self.scenario))


class Search:
    """One search; `found` are the scenarios that showed the finding, each smaller than the one before."""

    def __init__(
        self,
        *,
        decide: Decide,
        refute: Refute,
        journal: Journal,
        time_left_s: Callable[[], float],
        note: Callable[[str], None],
        jobs: int = 1,
    ) -> None:
        self._journal = journal
        self._asking = Asking(decide=decide, refute=refute, journal=journal, time_left_s=time_left_s, note=note)
        self._time_left_s = time_left_s
        self._note = note
        self._jobs = jobs
        self._times = 0
        self.found: list[Scenario] = []

    def carry_out(
        self, starts: Sequence[Start], guesses: Sequence[Sequence[int]], blamed: LostPartition | None, times: int
    ) -> Smaller:
        """Shrink the first of `starts` that shows, the same steps each; then confirm with `times` runs.

        Raises `NotReproduced`, and `HarnessError`.
        """
        self._times = times
        finished = True
        try:
            current = self._begin(starts, guesses)
            # Runs of a smaller cluster with fewer records are quicker: worth one try before many.
            current = msgspec.structs.replace(current, scenario=self._smaller_at_once(current.scenario, blamed))
            scenario = self._fewer_steps(current)
            scenario = self._smaller(scenario, reductions(scenario, blamed), "smaller")
            self._smaller(scenario, merged_waits(scenario), "waits joined with what they wait for")
        except OutOfBudget:
            finished = False
            self._note("the budget is spent: the search stops here, and goes on when it is started again")
        if not self.found:
            raise NotReproduced(
                "the budget was spent before the finding came again" if not finished else "the finding did not come",
                next="a larger --budget, or `ebbtide replay` to see where the runs part",
            )
        return self._confirmed(times, finished)

    def _begin(self, starts: Sequence[Start], guesses: Sequence[Sequence[int]]) -> Start:
        """The first guess that shows; else the whole schedule, which must."""
        parts: list[tuple[Candidate, Start]] = []
        for guess in guesses:
            for start in starts:
                kept = start.meaningful(guess)
                if kept and len(kept) < len(start.scenario.steps):
                    part = start.part(kept)
                    parts.append((Candidate(f"guess: {described(part.scenario.steps)}", part.scenario), part))
        before = self._times_in_vain(starts)
        for time in range(before, before + _TRIES_OF_WHOLE):
            parts += [(Candidate("the whole schedule", start.scenario, time), start) for start in starts]
        found = self._first(candidate for candidate, _ in parts)
        if found is None:
            raise NotReproduced(
                f"the recorded schedule did not show its finding again in {_TRIES_OF_WHOLE * len(starts)} runs",
                where=str(self._journal.folder),
                got=self._journal.way or None,
                next="ebbtide replay RUN --times 5    (says how often it comes, and where the runs part); "
                "the same command tries as often once more",
            )
        return next(part for candidate, part in parts if candidate is found)

    def _times_in_vain(self, starts: Sequence[Start]) -> int:
        """How often earlier calls tried the whole, and ended for it: what seldom comes may come the next time."""

        def in_vain(time: int) -> bool:
            known = [self._journal.get(self._journal.key_of(start.scenario, time)) for start in starts]
            return all(one is not None and not one.shows for one in known)

        times = 0
        while all(in_vain(time) for time in range(times, times + _TRIES_OF_WHOLE)):
            times += _TRIES_OF_WHOLE
        return times

    def _fewer_steps(self, start: Start) -> Scenario:
        patient = False

        def first(parts: Iterable[Subset]) -> Subset | None:
            nonlocal patient
            found = self._first_part(parts, scenario_of)
            patient = patient or (found is not None and found.time > 0)
            return found

        def scenario_of(part: Subset) -> tuple[str, Scenario]:
            # What was refused once may have lacked only the time that the steps which are gone took.
            smaller = start.part(part.kept, patient=patient or part.time > 0).scenario
            return f"{len(part.kept)} steps: {described(smaller.steps)}", smaller

        ddmin(tuple(range(len(start.scenario.steps))), first, whole=start.meaningful, refusals=_REFUSALS_OF_A_STEP)
        return self.found[-1]

    def _smaller_at_once(self, scenario: Scenario, blamed: LostPartition | None) -> Scenario:
        """All reductions of cluster and clients, or those of them that change nothing for the partition that lost."""
        wanted = reductions(scenario, blamed)
        everything, gentle = _applied(scenario, wanted), _applied(scenario, [one for one in wanted if one.gentle])
        tried = {"everything smaller at once": everything, "consumers, partitions and brokers left out": gentle}
        found = self._first(Candidate(what, one) for what, one in tried.items() if one != scenario)
        return scenario if found is None else found.scenario

    def _smaller(self, scenario: Scenario, wanted: Sequence[Reduction], what: str) -> Scenario:
        """As many reductions as can be had: all at once, else by halves."""

        def applied(kept: Items) -> Scenario:
            return _applied(scenario, [one for at, one in enumerate(wanted) if at not in kept])

        def scenario_of(part: Subset) -> tuple[str, Scenario]:
            left_out = [one.what for at, one in enumerate(wanted) if at not in part.kept]
            return f"{what}: without {', '.join(left_out)}", applied(part.kept)

        def first(parts: Iterable[Subset]) -> Subset | None:
            return self._first_part(parts, scenario_of)

        if applied(()) != scenario and first([Subset(())]) is None:
            # What saves the most is asked about first: a pass begins at the end.
            ddmin(tuple(reversed(range(len(wanted)))), first)
        return self.found[-1]

    def _first_part(
        self, parts: Iterable[Subset], scenario_of: Callable[[Subset], tuple[str, Scenario]]
    ) -> Subset | None:
        offered: list[tuple[Candidate, Subset]] = []
        same: list[Subset] = []

        def candidates() -> Iterator[Candidate]:
            for part in parts:
                what, scenario = scenario_of(part)
                if scenario == self.found[-1]:
                    # Nothing is gone with it, as with a step that was merged: it shows.
                    same.append(part)
                    return
                candidate = Candidate(what, scenario, part.time)
                offered.append((candidate, part))
                yield candidate

        found = self._first(candidates())
        if found is None:
            return same[0] if same else None
        return next(part for candidate, part in offered if candidate is found)

    def _first(self, candidates: Iterable[Candidate]) -> Candidate | None:
        found = self._asking.first(candidates, reserve_s=self._confirming_s)
        if found is not None:
            self.found.append(found.scenario)
        return found

    def _confirming_s(self, run_s: float) -> float:
        """How long it takes to confirm what is found: part of the budget."""
        return math.ceil(self._times / self._jobs) * run_s if self.found else 0.0

    def _confirmed(self, times: int, finished: bool) -> Smaller:
        """The smallest that shows the finding in more than half of its runs; else the one that did most often."""
        best: Smaller | None = None
        left = list(self.found)
        while left:
            scenario = left.pop()
            # Far from the numbers that tries of the whole schedule and repetitions take.
            runs = (Candidate(f"confirming, run {time}", scenario, 100 + time) for time in range(1, times + 1))
            answers = self._asking.rate(runs)
            shown = sum(answers)
            self._note(f"confirmed: {shown} of {len(answers)} runs of {len(scenario.steps)} steps")
            if best is None or shown > best.shown:
                best = Smaller(scenario=scenario, shown=shown, times=len(answers), finished=finished)
            if shown * 2 > len(answers):
                break
            if self._time_left_s() <= 0:
                # With more time it would run more often, or what was found before it.
                finished = finished and not left and len(answers) == times
                break
        assert best is not None, "at least one scenario has been found"
        finished = finished and not self._asking.put_aside
        return msgspec.structs.replace(best, finished=finished, gave_way=best.scenario != self.found[-1])


def _applied(scenario: Scenario, wanted: Sequence[Reduction]) -> Scenario:
    for one in wanted:
        smaller = one.apply(scenario)
        # What is invalid together with what went before is left for later.
        if smaller is not None and next(iter(meaning(smaller, nothing_wrong)), None) is None:
            scenario = smaller
    return scenario
