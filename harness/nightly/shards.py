"""Splits the catalogue of a night between machines, and by what this host can run.

Each machine makes the same split by itself: it depends only on the jobs, and on the run times that
Ebbtide was measured with. So the shards are disjoint without knowing of each other.

Scenarios that this host cannot run are skipped, and the summary of the night lists them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from statistics import median

import msgspec

from cluster.doctor import LIBRDKAFKA_CLIENTS, VOLUMES, XFS_POWER_LOSS, Check
from ebbtide.errors import HarnessError, UsageError
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.shipped import measured_rows
from ebbtide.scenario.steps.table import DISK_TROUBLES
from harness.nightly.job import Job
from harness.nightly.store import SkippedJob
from harness.runner.host import librdkafka_users

SHARDS_MAX = 1000


class Shard(msgspec.Struct, frozen=True):
    """Shard `number` of `count`, the first of which is 1."""

    number: int
    count: int

    def __str__(self) -> str:
        """Write the shard as typed: `2/5`."""
        return f"{self.number}/{self.count}"


def parse_shard(text: str) -> Shard:
    """Parse `K/N`. Raises `UsageError` for anything else."""
    words = text.split("/")
    if len(words) == 2 and all(
        word.isascii() and word.isdecimal() and len(word) <= len(str(SHARDS_MAX)) for word in words
    ):
        shard = Shard(int(words[0]), int(words[1]))
        if 1 <= shard.number <= shard.count <= SHARDS_MAX:
            return shard
    raise UsageError(
        "not a shard", where="--shard", got=repr(text), allowed=f"K/N with 1 <= K <= N <= {SHARDS_MAX}, such as 2/5"
    )


def jobs_of_shard(jobs: Iterable[Job], shard: Shard, took_s: Mapping[str, float] | None = None) -> list[Job]:
    """Return the shard's jobs, in the order given.

    The longest job comes first, each to the shard that has the least to do. `took_s`: how long a
    scenario takes, by its name; by default as measured. A scenario that was never measured counts
    as one of median length.
    """
    jobs = list(jobs)
    known = measured_s() if took_s is None else took_s
    unknown = median(known.values()) if known else 1.0
    loads = [(0.0, number) for number in range(1, shard.count + 1)]
    chosen: set[str] = set()
    for length, key in sorted((-known.get(job.scenario, unknown), job.key) for job in jobs):
        load, number = heapq.heappop(loads)
        heapq.heappush(loads, (load - length, number))
        if number == shard.number:
            chosen.add(key)
    return [job for job in jobs if job.key in chosen]


def measured_s() -> dict[str, float]:
    """Return how long each scenario took, on whatever release and runtime it was measured."""
    times: dict[str, list[float]] = {}
    for row in measured_rows():
        times.setdefault(row.scenario, []).append(row.took_s)
    return {scenario: median(found) for scenario, found in times.items()}


def unavailable_abilities(checks: Iterable[Check]) -> dict[str, str]:
    """Return what the host cannot do, each with the reason.

    The keys are kinds of step, and other abilities that `cluster.doctor` names.
    """
    found: dict[str, str] = {}
    for check in checks:
        if check.status != "ok":
            for what in check.disables:
                found.setdefault(what, f"this host lacks {check.name} ({check.detail})")
    if VOLUMES in found:
        # Without volumes, a power loss truncates files, and nodes have no disk that a fault could damage.
        found = dict.fromkeys(DISK_TROUBLES, found[VOLUMES]) | found
        # The file system does not matter to truncate.
        found.pop(XFS_POWER_LOSS, None)
    return found


def split_jobs(
    jobs: Iterable[Job], scenarios: Iterable[Scenario], impossible: Mapping[str, str]
) -> tuple[list[Job], tuple[SkippedJob, ...]]:
    """Split jobs into those that the host can run and those it skips.

    `impossible`: what the host cannot do, as `unavailable_abilities` returns it. Raises `HarnessError` if the
    host can run none of the jobs.
    """
    why = {one.name: impossible[need] for one in scenarios for need in _needs(one) if need in impossible}
    can, skipped = [], []
    for job in jobs:
        if job.scenario in why:
            skipped.append(SkippedJob(job=job, why=why[job.scenario]))
        else:
            can.append(job)
    if skipped and not can:
        raise HarnessError(
            "this host can run none of these scenarios",
            got="; ".join(dict.fromkeys(one.why for one in skipped)),
            next="ebbtide doctor",
        )
    return can, tuple(skipped)


def _needs(scenario: Scenario) -> list[str]:
    """Return the kinds of step of a scenario, and what else a host may lack for it."""
    needs = sorted({step.step for step in scenario.steps})
    if scenario.cluster.file_system == "xfs":
        needs.append(XFS_POWER_LOSS)
    if librdkafka_users(scenario):
        needs.append(LIBRDKAFKA_CLIENTS)
    return needs
