"""From when until when each elected broker may have led, as far as a run can show it."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from simulator.controller import ElectionMade

if TYPE_CHECKING:
    from simulator.simulation import Simulation


class Reigns:
    """The reigns of all elections whose winner lived; a broker that was dead then never learns of it."""

    def __init__(self) -> None:
        self._elected: list[ElectionMade] = []
        self._led_since: dict[int, int] = {}
        self._ends: list[tuple[int, int]] = []
        self._found: dict[int, list[tuple[int, int]]] = {}

    def elected(self, election: ElectionMade) -> None:
        """Note that a broker that lives was elected."""
        self._elected.append(election)

    def led(self, election: ElectionMade, at: int) -> None:
        """Note that an elected broker began to lead."""
        self._led_since[election.order] = at

    def ended(self, broker: int, at: int) -> None:
        """Note that a broker's process ended."""
        self._ends.append((broker, at))

    def count_within(self, sim: Simulation, number: int, first: int, last: int) -> int:
        """Return how many brokers may have led a partition between two times; asked at the end of a history."""
        if number not in self._found:
            self._found[number] = [self._reign(sim, one) for one in self._elected if one.partition == number]
        return sum(since <= last and until >= first for since, until in self._found[number])

    def _reign(self, sim: Simulation, election: ElectionMade) -> tuple[int, int]:
        """Return from when until when the winner may have led by an election.

        Nobody sees when it learns of an election. It leads no more once it ended, or joined the ISR of a later leader.
        """
        broker, number = election.after.leader, election.partition
        over = [at for one, at in self._ends if one == broker and at >= election.at]
        states = [row for row in sim.controller.rows["partitions"] if row["partition"] == number]
        over += [
            after["at_ns"]
            for before, after in pairwise(states)
            if after["metadata_offset"] > election.metadata_offset and broker in set(after["isr"]) - set(before["isr"])
        ]
        return self._led_since.get(election.order, election.at), min(over, default=sim.now)
