"""Draws the script of a seed: its setup, its faults, and what is planted or left out."""

from __future__ import annotations

import random
from dataclasses import replace

from simulator.plots import bait, lacking_leader, last_replica
from simulator.script import FEATURES, MS, SECOND, VIOLATIONS, Fault, Script, Setup

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
    faults = sorted(_draw_faults(rng, setup, name, seed), key=lambda one: one.at)
    lacks = frozenset(rng.sample(LACKS, rng.choice((1, 1, 2, 3)))) if degraded else frozenset()
    more = random.Random(f"more/{seed}")
    if more.random() < 0.2:
        faults = [_slowed(more, fault) for fault in faults]
    setup = replace(setup, lost_answers=more.choice((0.0, 0.0, 0.0, 0.1)))
    if more.random() < 0.15 and "steps" not in lacks:
        faults = sorted([*faults, *(_draw_clock(more) for _ in range(more.randint(1, 2)))], key=lambda one: one.at)
    elif name is not None and more.random() < 0.3:
        # A request that is over when the violation begins allows nothing.
        faults = [Fault(at=1_600 * MS, kind="elect"), *faults]
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
        measured=rng.choice((3, 3, 3, 300, 1_200)) * MS,
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
    ("recover", 0.4),
    ("metadata-version", 0.4),
    ("min-isr", 0.6),
    ("unclean", 0.5),
    ("elr", 0.4),
    ("failover", 0.5),
    ("reassign", 0.5),
)


def _draw_faults(rng: random.Random, setup: Setup, violation: str | None, seed: int) -> list[Fault]:
    brokers = tuple(range(1, setup.brokers + 1))
    # A plot takes the brokers that a violation is to cost records.
    others = ("none", "none") if violation else ("lacking-leader", "lacking-leader")
    plot = rng.choice(("none", *others, "last-replica", "lacking-leader"))
    count = rng.randint(0, 2) if plot == "lacking-leader" else rng.randint(2, 8)
    faults = [_draw_fault(rng, setup, brokers) for _ in range(count)]
    if plot == "last-replica":
        faults += last_replica(rng, setup, brokers)
    elif plot == "lacking-leader":
        faults += lacking_leader(rng, setup, seed)
    if violation is not None:
        # A request that happens to be under way would allow what is planted.
        faults = [fault for fault in faults if fault.kind not in ("elect", "recover")]
        faults.append(Fault(at=rng.randint(2, 8) * SECOND, kind="violate"))
        faults += bait(rng, violation, setup, brokers)
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
        case "metadata-version" if setup.rules == "3.9-at-8":
            return Fault(at=at, kind=kind, number=FEATURES["3.9"][1])
        case "elr" | "metadata-version":
            kind = "kill"
        case "wipe-disk" if setup.directories > 1 and rng.random() < 0.6:
            number = rng.randint(1, setup.directories)
            return Fault(at=at, kind=kind, nodes=some, lasts=lasts, spread=spread, number=number)
        case "failover":
            return Fault(at=at, kind=kind, lasts=rng.randint(2, 20) * 100 * MS)
        case "reassign":
            pool = tuple(range(1, setup.brokers + setup.spares + 1))
            return Fault(at=at, kind=kind, nodes=tuple(rng.sample(pool, setup.brokers)), partition=partition)
        case "elect" | "recover":
            return Fault(at=at, kind=kind, partition=partition)
    return Fault(at=at, kind=kind, nodes=some, lasts=lasts, spread=spread)
