"""What a campaign runs: one scenario on one release, once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from ebbtide.errors import UsageError
from ebbtide.releases.known import parse_version
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.recorded import spelled

Runtime = Literal["auto", "docker", "local"]
"""As asked for: `auto` is decided run by run."""
Origin = Literal["catalogue", "random"]


class ReleaseTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A Kafka release, and the feature levels to format it with besides the scenario's own."""

    kafka: str
    features: dict[str, int] = {}

    def __str__(self) -> str:
        """As it is typed: `4.0.2:eligible.leader.replicas.version=1`."""
        return spelled(self.kafka, self.features)


def parse_target(text: str) -> ReleaseTarget:
    """A target from `RELEASE` or `RELEASE:FEATURE=LEVEL+...`; raises `UsageError`."""
    kafka, _, levels = text.partition(":")
    parse_version(kafka)
    features = {}
    for part in filter(None, levels.split("+")):
        name, _, level = part.partition("=")
        if not name or not level.isdecimal():
            raise UsageError(
                "not a feature level",
                where="--kafka",
                got=repr(part),
                allowed="FEATURE=LEVEL, such as metadata.version=21",
            )
        features[name] = int(level)
    return ReleaseTarget(kafka=kafka, features=features)


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One run to be done. `number` tells repetitions apart; for a random schedule it is the seed."""

    scenario: str
    target: ReleaseTarget
    runtime: Runtime
    number: int
    origin: Origin = "catalogue"

    @property
    def group(self) -> str:
        """What repetitions have in common, also from night to night."""
        return f"{self.scenario} on {self.target} ({self.runtime})"

    @property
    def key(self) -> str:
        """The job's name in its night."""
        return f"{self.group} #{self.number}"


def random_job(target: ReleaseTarget, runtime: Runtime, seed: int) -> Job:
    """The job of the schedule that `seed` draws."""
    return Job(scenario=f"random-{seed}", target=target, runtime=runtime, number=seed, origin="random")


def catalogue_jobs(
    scenarios: Sequence[Scenario], targets: Sequence[ReleaseTarget] | None, runtime: Runtime, times: int
) -> Iterator[Job]:
    """Each scenario on each release it names, and of those only `targets` where they are given; round by round.

    Feature levels that the scenario fixes itself are not overridden: it would be another scenario.
    """
    for number in range(1, times + 1):
        for scenario in scenarios:
            named = [ReleaseTarget(kafka=kafka) for kafka in scenario.kafka]
            for target in named if targets is None else targets:
                fixed = scenario.cluster.features.keys() & target.features.keys()
                if target.kafka in scenario.kafka and not fixed:
                    yield Job(scenario=scenario.name, target=target, runtime=runtime, number=number)


def least_recent_first(jobs: Iterable[Job], ran: Sequence[str]) -> list[Job]:
    """Round by round, and in each what ran the longest ago, or never, first. `ran`: groups, the oldest run first."""
    last = {group: at for at, group in enumerate(ran)}
    return sorted(jobs, key=lambda job: (job.number, last.get(job.group, -1)))
