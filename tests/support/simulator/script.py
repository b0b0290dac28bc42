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
    directories: int = 1
    """The log directories of a broker; partition N is in directory N modulo this."""

    @property
    def nodes(self) -> int:
        """The number of brokers, spares included."""
        return self.brokers + self.spares

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

LACKS: tuple[str, ...] = (
    "sends-offsets",
    "polls-epochs",
    "watermarks",
    "replicas",
    "log-ends",
    "node-times",
    "steps",
    "configs",
    "brokers",
    "metadata-gap",
    "metadata-tail",
)


def draw_script(seed: int, *, violation: bool | None = None, degraded: bool = False) -> Script:
    """Return the script of a seed; every third has a planted violation, unless `violation` says otherwise."""
    rng = random.Random(f"script/{seed}")
    wanted = seed % 3 == 2 if violation is None else violation
    name = rng.choice(VIOLATIONS) if wanted else None
    setup = _draw_setup(rng, name)
    faults = sorted(_draw_faults(rng, setup, name), key=lambda one: one.at)
    lacks = frozenset(rng.sample(LACKS, rng.choice((1, 1, 2)))) if degraded else frozenset()
    more = random.Random(f"more/{seed}")
    if more.random() < 0.2:
        faults = [_slowed(more, fault) for fault in faults]
    if more.random() < 0.15 and "steps" not in lacks:
        faults = sorted([*faults, *(_draw_clock(more) for _ in range(more.randint(1, 2)))], key=lambda one: one.at)
    return Script(seed=seed, setup=setup, faults=tuple(faults), violation=name, lacks=lacks)


def _slowed(rng: random.Random, fault: Fault) -> Fault:
    """Let a step that takes disks take seconds, as one that really goes over several hosts."""
    if fault.kind not in ("power-loss", "wipe-disk"):
        return fault
    spread = rng.randint(5, 80) * 100 * MS if len(fault.nodes) > 1 else 0
    return replace(fault, spread=spread, takes=rng.choice((0, rng.randint(1, 30) * 100 * MS)))


def _draw_clock(rng: random.Random) -> Fault:
    number = rng.choice((-1, 1)) * rng.choice((60, 150, 400, 3_000, 3_600_000)) * MS
    nodes = rng.choice(((100,), (100,), ()))
    return Fault(
        at=rng.randint(20, 120) * 100 * MS,
        kind="clock",
        nodes=nodes,
        lasts=rng.randint(5, 80) * 100 * MS,
        number=number,
    )


def _draw_setup(rng: random.Random, violation: str | None) -> Setup:
    rules = rng.choice(tuple(FEATURES))
    if violation == "stale-join":
        rules = rng.choice(("3.9", "4.3-no-elr"))
    elif violation == "unclean-stays-electable":
        rules = "4.3"
    brokers = 5 if rng.random() < 0.2 else 3
    return Setup(
        rules=rules,
        brokers=brokers,
        spares=1 if rng.random() < 0.15 else 0,
        partitions=rng.choice((1, 1, 2)),
        min_isr=rng.choice((1, 2) if brokers == 3 else (1, 2, 3)),
        unclean=rng.choice((None, None, False, True)),
        acks=rng.choice(((-1,), (-1,), (1,), (-1, 1))),
        send_every=rng.choice((70, 100, 150)) * MS,
        session_timeout=SECOND if violation == "stale-join" else rng.choice((1_000, 2_000, 3_000)) * MS,
        lag_max=rng.choice((700, 1_500, 2_500)) * MS,
        flush_every=rng.choice((None, 500 * MS, 1_500 * MS, 4_000 * MS)),
        consumers=rng.choice((0, 1, 1, 2)),
        slow_consumer=rng.choice((0, 0, 500, 2_000)) * MS,
        controller_clock=rng.choice((0, 0, 0, -80, 80)) * MS,
        broker_fetch=rng.choice((4, 8, 25)) * MS,
        sample_every=rng.choice((100, 200, 500)) * MS,
        retries=rng.random() < 0.3,
        directories=rng.choice((1, 1, 2)),
    )


_KINDS: tuple[tuple[str, float], ...] = (
    ("kill", 3),
    ("power-loss", 4),
    ("wipe-disk", 1.5),
    ("stop", 0.7),
    ("cut", 3),
    ("cut-clients-stay", 1.5),
    ("pause", 1.5),
    ("slow", 1.5),
    ("stall", 1),
    ("hold-isr", 1),
    ("elect", 0.6),
    ("min-isr", 0.6),
    ("unclean", 0.5),
    ("elr", 0.4),
    ("failover", 0.5),
    ("reassign", 0.5),
)


def _draw_faults(rng: random.Random, setup: Setup, violation: str | None) -> list[Fault]:
    brokers = tuple(range(1, setup.brokers + 1))
    faults = [_draw_fault(rng, setup, brokers) for _ in range(rng.randint(2, 8))]
    if rng.random() < 0.5:
        faults += _last_replica(rng, setup, brokers)
    if violation is not None:
        # A request that happens to be under way would allow what is planted.
        faults = [fault for fault in faults if fault.kind != "elect"]
        faults.append(Fault(at=rng.randint(2, 8) * SECOND, kind="violate"))
        faults += _bait(rng, violation, brokers)
    return faults


def _draw_fault(rng: random.Random, setup: Setup, brokers: tuple[int, ...]) -> Fault:
    kind = rng.choices([one for one, _ in _KINDS], [weight for _, weight in _KINDS])[0]
    at = rng.randint(20, 120) * 100 * MS
    lasts = rng.randint(3, 60) * 100 * MS
    some = tuple(rng.sample(brokers, rng.choice((1, 1, 1, 2, 2, 3))))
    spread = rng.choice((0, 0, 300, 2_000)) * MS if len(some) > 1 else 0
    partition = rng.randrange(setup.partitions)
    match kind:
        case "cut-clients-stay":
            return Fault(at=at, kind="cut", nodes=some[:2], others=(*brokers, 100), lasts=lasts)
        case "pause" | "slow":
            number = rng.randint(1, 15) * 100 * MS
            return Fault(at=at, kind=kind, nodes=some[:1], lasts=lasts, number=number)
        case "stall":
            return Fault(at=at, kind=kind, lasts=rng.randint(1, 12) * 50 * MS)
        case "hold-isr":
            return Fault(at=at, kind=kind, lasts=rng.randint(5, 50) * 100 * MS)
        case "min-isr":
            return Fault(at=at, kind=kind, number=rng.randint(1, min(3, setup.brokers)))
        case "unclean":
            return Fault(at=at, kind=kind, number=rng.randrange(2))
        case "elr" if setup.kafka >= "4":
            return Fault(at=at, kind=kind, number=rng.randrange(2))
        case "elr":
            kind = "kill"
        case "wipe-disk" if setup.directories > 1 and rng.random() < 0.6:
            number = rng.randint(1, setup.directories)
            return Fault(at=at, kind=kind, nodes=some, lasts=lasts, spread=spread, number=number)
        case "failover":
            return Fault(at=at, kind=kind, lasts=rng.randint(2, 20) * 100 * MS)
        case "reassign":
            pool = tuple(range(1, setup.brokers + setup.spares + 1))
            return Fault(at=at, kind=kind, nodes=tuple(rng.sample(pool, setup.brokers)), partition=partition)
        case "elect":
            return Fault(at=at, kind=kind, partition=partition)
    return Fault(at=at, kind=kind, nodes=some, lasts=lasts, spread=spread)


def _last_replica(rng: random.Random, setup: Setup, brokers: tuple[int, ...]) -> list[Fault]:
    """Take all replicas but one out of the ISR, then take the log of the last one."""
    last = rng.choice(brokers)
    rest = tuple(one for one in brokers if one != last)
    at = rng.randint(25, 50) * 100 * MS
    then = at + setup.session_timeout + setup.lag_max + rng.randint(5, 20) * 100 * MS
    lasts = rng.randint(5, 30) * 100 * MS
    how = rng.choice(("kill", "cut", "power-loss"))
    first = Fault(at=at, kind=how, nodes=rest, lasts=then - at + lasts)
    lost = rng.choice(("power-loss", "power-loss", "wipe-disk", "kill"))
    return [first, Fault(at=then, kind=lost, nodes=(last,), lasts=rng.randint(3, 40) * 100 * MS)]


def _bait(rng: random.Random, violation: str, brokers: tuple[int, ...]) -> list[Fault]:
    """Return faults that make a violation likely to cost records."""
    one, other = rng.sample(brokers, 2)
    rest = tuple(broker for broker in brokers if broker != one)
    at = rng.randint(90, 110) * 100 * MS
    match violation:
        case "hw-passes-member" | "joins-too-early":
            slow = Fault(at=at - 3 * SECOND, kind="slow", nodes=(one,), lasts=4 * SECOND, number=1_200 * MS)
            return [slow, Fault(at=at, kind="kill", nodes=rest, lasts=3 * SECOND)]
        case "acks-too-early":
            slow = Fault(at=at - SECOND, kind="slow", nodes=brokers, lasts=2 * SECOND, number=900 * MS)
            return [slow, Fault(at=at, kind="kill", nodes=(other,), lasts=3 * SECOND)]
        case "kill-drops-records":
            return [Fault(at=at, kind="kill", nodes=brokers, lasts=2 * SECOND, spread=SECOND)]
        case "stale-join":
            # It asks to join, loses its disk and registers again before the request arrives.
            return [
                Fault(at=at - 5 * SECOND, kind="kill", nodes=(one,), lasts=SECOND),
                Fault(at=at - 4 * SECOND, kind="hold-isr", lasts=6 * SECOND),
                Fault(at=at - 1_500 * MS, kind="wipe-disk", nodes=(one,), lasts=200 * MS),
                Fault(at=at + 2_200 * MS, kind="kill", nodes=rest, lasts=3 * SECOND),
            ]
        case "unclean-stays-electable":
            return [Fault(at=at, kind="power-loss", nodes=brokers, lasts=2 * SECOND, spread=500 * MS)]
    return [
        Fault(at=at - 3 * SECOND, kind="cut", nodes=(one,), lasts=3 * SECOND),
        Fault(at=at, kind="kill", nodes=rest, lasts=2 * SECOND),
    ]
