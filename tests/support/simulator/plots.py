"""Faults in an order that makes a wanted loss likely; everything else of a history stays random.

A plot lets one replica, the victim, lack records in some way, and then lets it lead by some road.
"""

from __future__ import annotations

import random

from analysis.spec.partition import MV_FETCH_CARRIES_BROKER_EPOCH
from simulator.script import FEATURES, MS, SECOND, Fault, Setup

_BOOT = 600 * MS
"""How long a broker needs to boot, to register and to be unfenced, besides the session timeout."""
_WAYS = ("cut", "power-loss", "wipe-disk", "truncated", "held-join", "dead-join")
_ROADS = ("isr", "elect", "recover", "config")


def last_replica(rng: random.Random, setup: Setup, brokers: tuple[int, ...]) -> list[Fault]:
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


def lacking_leader(rng: random.Random, setup: Setup, seed: int) -> list[Fault]:
    """Let a follower of partition 0 lack records in some way, and let it lead by some road."""
    leader, victim, *others = setup.replicas_of(seed)[0]
    at = rng.randint(25, 45) * 100 * MS
    out = setup.session_timeout + setup.lag_max + _BOOT
    is_old = setup.features["metadata.version"] < MV_FETCH_CARRIES_BROKER_EPOCH
    way, road = rng.choice((*_WAYS, *(["held-join"] * 4 if is_old else []))), rng.choice(_ROADS)
    rest, jitter = (leader, *others), rng.randint(0, 8) * 100 * MS
    back = rng.randint(1, 10) * 100 * MS
    match way:
        case "truncated":
            return _come_back(rng, setup, setup.replicas_of(seed)[0], road)
        case "cut":
            ready = at + out + jitter
            faults = [Fault(at=at, kind="cut", nodes=(victim,), lasts=ready + back - at)]
        case "power-loss" | "wipe-disk":
            ready = at + out + jitter
            faults = [Fault(at=at, kind=way, nodes=(victim,), lasts=ready + back - at)]
        case _:
            faults = _held_join(setup, victim, at, dies=way == "dead-join")
            # The leader shrinks the ISR again soon.
            ready = faults[-1].at + faults[-1].lasts + 20 * MS
            if setup.rules == "3.9-at-8" and rng.random() < 0.4:
                faults.append(Fault(at=ready + _BOOT, kind="metadata-version", number=FEATURES["3.9"][1]))
    how = rng.choice(("kill", "kill", "power-loss"))
    faults.append(Fault(at=ready, kind=how, nodes=rest, lasts=out + 3 * SECOND + jitter))
    return [*faults, *_road(rng, setup, road, ready + back + out)]


def _road(rng: random.Random, setup: Setup, road: str, at: int) -> list[Fault]:
    out = setup.session_timeout + 2 * _BOOT
    if road in ("elect", "recover"):
        # Nobody shall be elected before the operator asks.
        return [Fault(at=at - out, kind="unclean"), Fault(at=at, kind=road)]
    if road == "config":
        return [Fault(at=rng.choice((2 * SECOND, at)), kind="unclean", number=1)]
    return []


def _held_join(setup: Setup, victim: int, at: int, *, dies: bool) -> list[Fault]:
    """Let the leader ask for the victim's join, and let the victim lose its disk before the request arrives.

    `dies`: its session outlives it, so that it joins although it is dead. Otherwise it has registered again.
    """
    back = at + setup.session_timeout
    asks = back + 3 * _BOOT
    arrives = asks + (400 * MS if dies else setup.session_timeout + 4 * _BOOT)
    return [
        Fault(at=at, kind="kill", nodes=(victim,), lasts=back - at),
        Fault(at=asks, kind="slow", nodes=(victim,), lasts=arrives + SECOND - asks, number=SECOND),
        Fault(at=asks, kind="wipe-disk", nodes=(victim,), lasts=3 * setup.session_timeout if dies else 200 * MS),
        Fault(at=back, kind="hold-isr", lasts=arrives - back),
    ]


def _come_back(rng: random.Random, setup: Setup, replicas: tuple[int, ...], road: str) -> list[Fault]:
    """Let the victim truncate records that come back with their first leader, and let it lead after that."""
    leader, *others, victim = replicas
    at = rng.randint(25, 35) * 100 * MS
    dead, out = at + 700 * MS, setup.session_timeout + 2 * _BOOT
    gone = dead + out + rng.randint(2, 8) * 100 * MS
    again = gone + out + rng.randint(0, 5) * 100 * MS
    return [
        Fault(at=2 * SECOND, kind="unclean", number=1),
        # The victim fetches what the next leader lacks.
        Fault(at=at, kind="slow", nodes=tuple(others), lasts=SECOND, number=900 * MS),
        Fault(at=dead, kind="kill", nodes=(leader,), lasts=gone + 100 * MS - dead),
        Fault(at=gone, kind="kill", nodes=(victim, *others), lasts=again + 300 * MS - gone),
        Fault(at=again, kind=rng.choice(("kill", "cut")), nodes=(leader,), lasts=out + 2 * SECOND),
        Fault(at=again, kind="cut", nodes=tuple(others), lasts=out + 2 * SECOND),
        *_road(rng, setup, road, again + out),
    ]


def bait(rng: random.Random, violation: str, setup: Setup, brokers: tuple[int, ...]) -> list[Fault]:
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
        case "unclean-stays-electable" if rng.random() < 0.5:
            return last_replica(rng, setup, brokers)
        case "unclean-stays-electable":
            return [Fault(at=at, kind="power-loss", nodes=brokers, lasts=2 * SECOND, spread=500 * MS)]
    return [
        Fault(at=at - 3 * SECOND, kind="cut", nodes=(one,), lasts=3 * SECOND),
        Fault(at=at, kind="kill", nodes=rest, lasts=2 * SECOND),
    ]
