"""A history's script: the cluster's setup and the faults, drawn from a seed.

Everything else that is random in a simulation comes from generators that are seeded by the script's seed and a name.
So the same script always gives the same history, and a script without one of its faults stays close to the whole one.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

MS = 1_000
"""Simulated time is in microseconds."""
SECOND = 1_000 * MS

FEATURES: dict[str, tuple[str, int, bool]] = {
    "3.4": ("3.4.1", 8, False),
    "3.9-at-8": ("3.9.1", 8, False),
    "3.9": ("3.9.1", 21, False),
    "4.0-elr": ("4.0.0", 25, True),
    "4.3": ("4.3.1", 30, True),
    "4.3-no-elr": ("4.3.1", 30, False),
}
"""The rules of a history: a release, its metadata.version, and whether the ELR is on."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One thing that happens to the cluster from `at` (us) on; `nodes` and `number` depend on the kind.

    - `kill`, `power-loss`, `wipe-disk`, `stop`: of `nodes`, one after the other over `spread`; they start again `lasts`
      later. A `wipe-disk` with a `number` replaces only this log directory (1 is the first). A log is gone `takes`
      after its process ended.
    - `cut`: `nodes` from all others, or from `others` only; `pause`: both end after `lasts`.
    - `slow`: each fetch of `nodes` waits `number`; `stall`: clients note nothing; `hold-isr`: AlterPartition requests
      wait: all end after `lasts`.
    - `elect`: an operator's unclean election; `min-isr`, `unclean`: the topic's config becomes `number`; `elr`: so
      does the feature level of the ELR.
    - `recover`: an operator's unclean recovery, which elects the best log. `metadata-version`: it becomes `number`.
    - `failover`: no controller for `lasts`. `reassign`: `nodes` become the replicas.
    - `clock`: the clock of the controller (`nodes` empty: of the host) is `number` ahead for `lasts`.
    - `violate`: from now on the violation of the script may happen.
    """

    at: int
    kind: str
    nodes: tuple[int, ...] = ()
    others: tuple[int, ...] = ()
    lasts: int = 0
    spread: int = 0
    takes: int = 0
    number: int = 0
    partition: int = 0


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What does not change in a history; times in us."""

    rules: str = "3.9"
    brokers: int = 3
    spares: int = 0
    partitions: int = 1
    min_isr: int = 1
    unclean: bool | None = None
    acks: tuple[int, ...] = (-1,)
    send_every: int = 100 * MS
    sends_end: int = 14 * SECOND
    session_timeout: int = 2 * SECOND
    lag_max: int = 1_500 * MS
    flush_every: int | None = None
    consumers: int = 1
    slow_consumer: int = 0
    controller_clock: int = 0
    broker_fetch: int = 6 * MS
    sample_every: int = 200 * MS
    retries: bool = False
    """Whether producers send a record again that nobody answered, so that it may stand twice."""
    lost_answers: float = 0.0
    """The share of answers to producers that get lost, so that records vanish to which nobody has an ack."""
    directories: int = 1
    """The log directories of a broker; partition N is in directory N modulo this."""
    measured: int = 3 * MS
    """How well a step measures when a process ended and when its log was gone."""

    @property
    def nodes(self) -> int:
        """The number of brokers, spares included."""
        return self.brokers + self.spares

    def replicas_of(self, seed: int) -> dict[int, tuple[int, ...]]:
        """Return the replicas of each partition when it is created; the first one leads."""
        rng, found = random.Random(f"{seed}/placement"), list(range(1, self.brokers + 1))
        return {number: tuple(rng.sample(found, len(found))) for number in range(self.partitions)}

    @property
    def kafka(self) -> str:
        """The release."""
        return FEATURES[self.rules][0]

    @property
    def features(self) -> dict[str, int]:
        """The feature levels of the manifest."""
        _, version, elr = FEATURES[self.rules]
        if self.kafka < "4":
            return {"metadata.version": version}
        return {"metadata.version": version, "eligible.leader.replicas.version": int(elr)}


@dataclass(frozen=True, kw_only=True)
class Script:
    """A history before it happened; `violation` names what the cluster does against the protocol, if anything.

    `lacks` names evidence that is left out of the record.
    """

    seed: int
    setup: Setup
    faults: tuple[Fault, ...]
    violation: str | None = None
    lacks: frozenset[str] = frozenset()

    @property
    def sets_clocks(self) -> bool:
        """Whether a clock is set."""
        return any(one.kind == "clock" for one in self.faults)

    def without(self, *at: int) -> Script:
        """Return the script without the faults at these places."""
        return replace(self, faults=tuple(one for place, one in enumerate(self.faults) if place not in at))


VIOLATIONS: tuple[str, ...] = (
    "hw-passes-member",
    "kill-drops-records",
    "fenced-stays-in-isr",
    "unclean-past-member",
    "unclean-not-asked",
    "stale-join",
    "epoch-twice",
    "unclean-stays-electable",
    "joins-too-early",
    "acks-too-early",
)
