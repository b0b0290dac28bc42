"""Compares guided with unguided random schedules on a model, in seconds.

Run `python -m bench.random_guidance_model`. The generator's own model stands in for Kafka. Its facts are sets
of up to four states that held at once (`cut&elr-of-two&moving`), most of which few schedules reach. The
result is about the search, not about Kafka; `bench.random_guidance` compares on real clusters.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

from analysis.spec.partition import NO_LEADER
from ebbtide.scenario.model import Scenario
from harness.random.drawing import GENERATORS, world_of
from harness.random.guide import Guide
from harness.random.world import World

_AT_ONCE_MAX = 4
_RARE_SHARE = 0.02
_AFTER = (20, 50, 100)


def coverage(scenario: Scenario) -> dict[str, int]:
    """Return every set of up to four states that held at once after some step."""
    world = world_of(scenario)
    found: set[str] = set()
    for step in scenario.steps[1:]:
        eligible = {name: set(partition.elr) for name, partition in world.partitions.items()}
        GENERATORS[step.step].carry_out(world, step)
        states = sorted(set(_states(world, eligible)))
        for size in range(1, _AT_ONCE_MAX + 1):
            found.update(map("&".join, itertools.combinations(states, size)))
    return dict.fromkeys(sorted(found), 1)


def _states(world: World, eligible: dict[str, set[int]]) -> Iterator[str]:
    for name, partition in world.partitions.items():
        yield from ["elr-of-two"] * (len(partition.elr) >= 2)
        yield from ["isr-empty"] * (not partition.isr)
        yield from ["isr-of-one"] * (len(partition.isr) == 1)
        yield from ["leaderless"] * (partition.leader == NO_LEADER)
        yield from ["elected-from-elr"] * (partition.leader in eligible[name])
    brokers = world.brokers.values()
    for state, holds in (
        ("controller-out", world.controller != "up"),
        ("moving", world.moving),
        ("cut", bool(world.cut)),
        ("rules", bool(world.rules)),
        ("sick", any(broker.sick for broker in brokers)),
        ("paused", any(broker.process == "paused" for broker in brokers)),
    ):
        yield from [state] * holds


def play_series(first_seed: int, *, guided: bool, hits: Counter[str]) -> list[int]:
    """Return how many facts a series of runs had reached after each of `_AFTER` runs.

    `hits` counts the runs that reached each fact.
    """
    reached: set[str] = set()
    after = []
    with tempfile.TemporaryDirectory() as folder:
        guide = Guide(Path(folder), kafka="4.3.1", guided=guided)
        for number in range(1, max(_AFTER) + 1):
            scenario = guide.next_schedule(first_seed + number)
            facts = coverage(scenario)
            guide.add(scenario, facts)
            hits.update(facts.keys())
            reached |= facts.keys()
            if number in _AFTER:
                after.append(len(reached))
    return after


def main() -> int:
    """Play some series of each kind, and print their means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("series", nargs="?", type=int, default=12, help="how many series of each kind")
    count = parser.parse_args().series
    hits = {arm: Counter[str]() for arm in ("guided", "unguided", "reference")}
    for arm, counted in hits.items():
        # Separate series say which facts are rare: taken from one compared kind, they would favour the other.
        first = 1_000_000 if arm == "reference" else 0
        ended = [play_series(first + 1_000 * at, guided=arm == "guided", hits=counted) for at in range(count)]
        after = [f"{mean(one[at] for one in ended):.0f} after {runs}" for at, runs in enumerate(_AFTER)]
        print(f"{arm}: {', '.join(after)} runs (facts reached, mean of {count} series)")
    limit = _RARE_SHARE * count * max(_AFTER)
    rare = [fact for fact, seen in hits["reference"].items() if seen <= limit]
    reached = ", ".join(f"{sum(hits[arm][fact] for fact in rare)} times {arm}" for arm in ("guided", "unguided"))
    print(f"{len(rare)} facts are rare (in up to {_RARE_SHARE:.0%} of the reference runs): reached {reached}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
