"""Asks the model about an event, exhaustively within its bounds, and keeps each answer."""

from __future__ import annotations

from typing import Literal

import msgspec

from analysis.advise.events import REQUESTS_RF_MAX, WORST, AdvisedEvent, is_searched
from analysis.advise.groups import TopicGroup
from analysis.advise.known import new_disk_empties_elr
from analysis.advise.release import ReleaseFacts
from analysis.spec.explore.properties import PROPERTIES
from analysis.spec.explore.question import Answer, ask_machine
from analysis.spec.model.bounds import MAX_BROKERS, MAX_BUDGET, Bounds, bounds_in_words
from analysis.spec.model.machine import Machine
from analysis.spec.variants import VARIANTS

Says = Literal["survives", "loses", "unknown", "refused"]
ModelAcks = Literal["1", "all"]

STATES_MAX = 200_000
"""The most states of one search: about four seconds and 50 MB."""


class EventAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the model says of an event for one acks.

    `says`: `refused`, no record is ever acked; `unknown`, the search did not end. `steps` is the length of
    the counterexample, 0 if a known bug decides and not the model. `within` has the bounds in words.
    """

    says: Says
    within: str = ""
    states: int = 0
    steps: int = 0

    @property
    def is_by_known_bug(self) -> bool:
        """Whether a known bug decides, which the model does not have."""
        return self.says == "loses" and self.steps == 0


class ModelDesk:
    """Answers questions about one release; a question that was asked before costs nothing."""

    def __init__(
        self, release: ReleaseFacts, *, states_max: int = STATES_MAX, known: AnswerCache | None = None
    ) -> None:
        self.release = release
        self._states_max = states_max
        self._known: AnswerCache = {} if known is None else known

    def at(self, release: ReleaseFacts) -> ModelDesk:
        """Return a desk for another release, which knows the same answers."""
        return ModelDesk(release, states_max=self._states_max, known=self._known)

    def answer(self, event: AdvisedEvent, group: TopicGroup, acks: ModelAcks) -> EventAnswer:
        """Return what the model says; RF or a budget beyond the explorer's is unknown."""
        if acks == "all" and self.release.refuses_acks_all(group.settings.rf, group.settings.min_isr):
            return EventAnswer(says="refused")
        if event.budget.get("brokers", 0) > group.brokers:
            return EventAnswer(says="unknown", within="this needs a broker without a replica, and the cluster has none")
        if not is_searched(event, group.settings.rf):
            within = f"requests of operators have too many states above RF {REQUESTS_RF_MAX}"
            return EventAnswer(says="unknown", within=within)
        bounds = event.bounds(group, acks)
        if bounds.size > MAX_BROKERS or max(bounds.power_losses, bounds.kills, bounds.stops) > MAX_BUDGET:
            return EventAnswer(says="unknown", within=f"the model has at most {MAX_BROKERS} brokers")
        release = self.release
        if acks == "all" and event.budget.get("disks") and event.when == WORST and new_disk_empties_elr(release):
            return EventAnswer(
                says="loses", within="apache/kafka#20716, measured: a new disk's directory empties the ELR"
            )
        key = (release.variant, tuple(sorted(release.features.items())), bounds)
        if key not in self._known:
            self._known[key] = self._ask(bounds, acks)
        return self._known[key]

    def _ask(self, bounds: Bounds, acks: ModelAcks) -> EventAnswer:
        found = search_event(self.release, bounds, acks, self._states_max)
        within = bounds_in_words(bounds, recovers=False)
        if found.holds:
            return EventAnswer(says="survives", within=within, states=found.found.states)
        if found.trace is not None:
            steps = len(found.trace.steps)
            return EventAnswer(says="loses", within=within, states=found.found.states, steps=steps)
        return EventAnswer(says="unknown", within=f"{within}; not every state was searched", states=found.found.states)


AnswerCache = dict[tuple[str, tuple[tuple[str, int], ...], Bounds], EventAnswer]


def search_event(release: ReleaseFacts, bounds: Bounds, acks: ModelAcks, states_max: int) -> Answer:
    """Search for a lost record that was acked with `acks`."""
    asked = PROPERTIES["acks-all" if acks == "all" else "acks-1"]
    machine = Machine(VARIANTS[release.variant], release.cluster(), bounds, asked.promise)
    return ask_machine(machine, asked, max_states=states_max)
