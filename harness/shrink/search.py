"""The search for a smaller scenario: guesses, then steps, then cluster and workload. Whatever decides is passed in."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from harness.errors import EbbtideError, ExitCode
from harness.scenario.meaning import meaning
from harness.scenario.model import Scenario
from harness.shrink.ddmin import ddmin
from harness.shrink.journal import Decision, Journal, key_of
from harness.shrink.steps import acked_at_first, described, meaningful, with_steps
from harness.shrink.topology import Reduction, reductions

Decide = Callable[[Scenario], Decision]
"""Runs a scenario and says whether the finding came again."""
Refute = Callable[[Scenario], str | None]
"""Why a scenario cannot show the finding, without a run."""

_TRIES_OF_WHOLE = 2


class OutOfBudget(Exception):
    """No time is left for another run: what was found so far stands."""


class NotReproduced(EbbtideError):
    """The schedule as recorded did not show its finding again."""

    exit_code = ExitCode.INCONCLUSIVE


class Smaller(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario that showed the finding, and of how many runs it did in the end."""

    scenario: Scenario
    shown: int
    times: int
    finished: bool


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
    ) -> None:
        self._decide = decide
        self._refute = refute
        self._journal = journal
        self._time_left_s = time_left_s
        self._note = note
        self.found: list[Scenario] = []

    def carry_out(self, start: Scenario, guesses: Sequence[Sequence[int]], blamed: str | None, times: int) -> Smaller:
        """Shrink, then confirm with `times` runs. Raises `NotReproduced`, and what deciding raises."""
        finished = True
        try:
            current = self._begin(start, guesses)
            # Runs of a smaller cluster with fewer records are quicker: worth one try before many.
            current = self._all_smaller(current, blamed) or current
            current = self._fewer_steps(current)
            if self._all_smaller(current, blamed) is None:
                self._one_by_one(current, blamed)
        except OutOfBudget:
            finished = False
            self._note("the budget is spent: the search stops here, and goes on when it is started again")
        if not self.found:
            raise NotReproduced(
                "the budget was spent before the finding came again" if not finished else "the finding did not come",
                next="a larger --budget, or `ebbtide replay` to see where the runs part",
            )
        return self._confirmed(times, finished)

    def _begin(self, start: Scenario, guesses: Sequence[Sequence[int]]) -> Scenario:
        """The first guess that shows; else the whole schedule, which must."""
        acked = acked_at_first(start)
        for guess in guesses:
            kept = meaningful(start, guess, acked)
            if kept and len(kept) < len(start.steps):
                part = with_steps(start, kept, acked)
                if self._shows(f"guess: {described(part.steps)}", part):
                    return part
        for time in range(_TRIES_OF_WHOLE):
            if self._shows("the whole schedule", start, time):
                return start
        raise NotReproduced(
            f"the recorded schedule did not show its finding again in {_TRIES_OF_WHOLE} runs",
            next="ebbtide replay RUN --times 5    (says how often it comes, and where the runs part)",
        )

    def _fewer_steps(self, scenario: Scenario) -> Scenario:
        acked = acked_at_first(scenario)

        def shows(kept: tuple[int, ...]) -> bool:
            part = with_steps(scenario, kept, acked)
            return self._shows(f"{len(kept)} steps: {described(part.steps)}", part)

        kept = ddmin(tuple(range(len(scenario.steps))), shows, whole=lambda part: meaningful(scenario, part, acked))
        return with_steps(scenario, kept, acked)

    def _all_smaller(self, scenario: Scenario, blamed: str | None) -> Scenario | None:
        """All reductions of cluster and clients at once."""
        everything = _applied(scenario, reductions(scenario, blamed))
        if everything == scenario:
            return scenario
        return everything if self._shows("everything smaller at once", everything) else None

    def _one_by_one(self, scenario: Scenario, blamed: str | None) -> None:
        for one in reductions(scenario, blamed):
            smaller = one.apply(scenario)
            if smaller is not None and self._shows(f"without {one.what}", smaller):
                scenario = smaller

    def _confirmed(self, times: int, finished: bool) -> Smaller:
        """The smallest that shows the finding in more than half of its runs; else the one that did most often."""
        best: Smaller | None = None
        for scenario in reversed(self.found):
            shown = sum(self._again(scenario, time) for time in range(1, times + 1))
            self._note(f"confirmed: {shown} of {times} runs of {len(scenario.steps)} steps")
            if best is None or shown > best.shown:
                best = Smaller(scenario=scenario, shown=shown, times=times, finished=finished)
            if shown * 2 > times or self._time_left_s() <= 0:
                break
        assert best is not None, "at least one scenario has been found"
        return best

    def _shows(self, what: str, scenario: Scenario, time: int = 0) -> bool:
        if next(iter(meaning(scenario, lambda _where: False)), None) is not None:
            return False
        why = self._refute(scenario)
        if why is not None:
            self._note(f"no   {what}: {why}")
            return False
        decision = self._decided(what, scenario, key_of(scenario, time))
        if decision.shows:
            self.found.append(scenario)
        return decision.shows

    def _again(self, scenario: Scenario, time: int) -> bool:
        # Far from the numbers that tries of the whole schedule take.
        return self._decided(f"confirming, run {time}", scenario, key_of(scenario, 100 + time), in_budget=False).shows

    def _decided(self, what: str, scenario: Scenario, key: str, *, in_budget: bool = True) -> Decision:
        known = self._journal.get(key)
        if known is None:
            if in_budget and self._time_left_s() <= 0:
                raise OutOfBudget
            known = self._decide(scenario)
            self._journal.put(key, what, known)
        why = f": {known.why}" if known.why else ""
        self._note(f"{'yes ' if known.shows else 'no  '} {what}{why} ({known.took_s:.0f} s)")
        return known


def _applied(scenario: Scenario, wanted: Sequence[Reduction]) -> Scenario:
    for one in wanted:
        smaller = one.apply(scenario)
        # What is invalid together with what went before is left for later.
        if smaller is not None and next(iter(meaning(smaller, lambda _where: False)), None) is None:
            scenario = smaller
    return scenario
