"""Gates: what was true in another run when a step fired there, awaited before the step fires in this one.

A replay fires each step on the recorded state, not on clock times. A gate waits gently: where the state does not
come about, the run has departed from the recorded one, which is a finding and no failure, and the steps go on by
their own triggers.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import msgspec

from analysis.evidence.rows import PartitionRow
from harness.runner.triggers import Counters, Seen
from harness.runner.view import ClusterView, describe

_STALLED_S = 1.0
"""Without a further acknowledgement for so long, no more are to be expected in this state."""

_AS_FENCED = "registered"
"""A broker that has registered is fenced until it is told otherwise; which of the two is read is a matter of luck."""


class PartitionWas(msgspec.Struct, frozen=True, kw_only=True):
    """One partition, `topic-partition`, by this run's broker ids. `leader` -1: none; `elr` None: whatever it is."""

    partition: str
    leader: int
    isr: tuple[int, ...] = ()
    elr: tuple[int, ...] | None = ()
    recovering: bool = False

    def matches(self, row: PartitionRow | None) -> bool:
        """Whether the partition is so now, in whatever order the sets stand."""
        return row is not None and (
            row.leader == self.leader
            and set(row.isr) == set(self.isr)
            and (self.elr is None or set(row.elr) == set(self.elr))
            and bool(row.leader_recovery_state) == self.recovering
        )

    def told(self) -> str:
        """In the words of `harness.runner.view.describe`, epochs left out."""
        leader = "none" if self.leader < 0 else str(self.leader)
        text = f"{self.partition} leader {leader} ISR {sorted(self.isr)}"
        return text + (f" ELR {sorted(self.elr)}" if self.elr else "") + (" RECOVERING" if self.recovering else "")


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """What a step waits for besides its trigger, for at most `patience_s`.

    `standings`: broker id to how it stood, as `standing` names it. `acked`: so many, or as many as still come.
    `instead_of_trigger`: the trigger was a time, in which just this state came about.
    """

    partitions: tuple[PartitionWas, ...] = ()
    standings: Mapping[int, str] = {}
    acked: int = 0
    instead_of_trigger: bool = False
    patience_s: float = 10.0


def standing(event: str) -> str:
    """How a broker stands after a registration event."""
    return "fenced" if event == _AS_FENCED else event


class GateWatch:
    """One gate while its step waits."""

    def __init__(self, gate: Gate, view: ClusterView, counters: Counters) -> None:
        self._gate = gate
        self._view = view
        self._counters = counters
        self._acked = -1
        self._acked_at = time.monotonic()

    def look(self) -> Seen:
        """Ask once; what was seen names only what differs, and what was awaited instead."""
        differing = self.differing()
        if differing:
            return Seen(fired=False, what="; ".join(differing))
        enough = self._enough_acked()
        return Seen(fired=enough, what=f"{self._acked} acked" + ("" if enough else f", not {self._gate.acked}"))

    def differing(self) -> list[str]:
        """The partitions and brokers that are not as they were: as they are now, and were."""
        found = []
        for was in self._gate.partitions:
            row = self._view.partition(was.partition)
            if not was.matches(row):
                now = f"{was.partition} does not exist" if row is None else describe(row)
                found.append(f"{now}, not {was.told()}")
        for broker, wanted in self._gate.standings.items():
            event = self._view.image.brokers.get(broker)
            now = "not registered" if event is None else standing(event.event)
            if now != wanted:
                found.append(f"broker {broker} {now}, not {wanted}")
        return found

    def _enough_acked(self) -> bool:
        acked = self._counters.acked()
        if acked > self._acked:
            self._acked, self._acked_at = acked, time.monotonic()
        return acked >= self._gate.acked or time.monotonic() - self._acked_at >= _STALLED_S


def state_entry(gate: Gate, *, reached: bool, waited_s: float, seen: str) -> dict[str, Any]:
    """What steps.jsonl says of a gate: the `state` of its step."""
    return {
        "awaited": [
            *(was.told() for was in gate.partitions),
            *(f"broker {broker} {wanted}" for broker, wanted in gate.standings.items()),
            f"{gate.acked} acked",
        ],
        "instead_of_trigger": gate.instead_of_trigger,
        "reached": reached,
        "waited_s": round(waited_s, 3),
        "seen": seen,
    }
