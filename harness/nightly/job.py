"""A job of a night: one run of one scenario on one Kafka release."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Literal

import msgspec

from ebbtide.errors import UsageError
from ebbtide.record.predictions import predicts
from ebbtide.releases.builds import is_build
from ebbtide.releases.known_releases import parse_version, spell_release
from ebbtide.scenario.model import Scenario

Runtime = Literal["auto", "docker", "local"]
"""The runtime as the user asked for it; `auto` is decided for each run."""
Origin = Literal["catalogue", "random"]


_TargetWord = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,127}\Z")]
"""Folders of the store are named by targets."""


class ReleaseTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A Kafka release, and feature levels besides the scenario's own."""

    kafka: _TargetWord
    features: dict[_TargetWord, int] = {}

    def __str__(self) -> str:
        """Write the target as typed: `4.0.2:eligible.leader.replicas.version=1`."""
        return spell_release(self.kafka, self.features)


def parse_target(text: str) -> ReleaseTarget:
    """Parse `RELEASE` or `RELEASE:FEATURE=LEVEL+...`.

    Raises `UsageError` for anything else.
    """
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
    """One run to do; `number` counts repetitions, or is the seed of a random schedule."""

    scenario: str
    target: ReleaseTarget
    runtime: Runtime
    number: int
    origin: Origin = "catalogue"

    @property
    def group(self) -> str:
        """The name that all repetitions share, also from night to night."""
        return f"{self.scenario} on {self.target} ({self.runtime})"

    @property
    def key(self) -> str:
        """The job's unique name in its night."""
        return f"{self.group} #{self.number}"

    @property
    def label(self) -> str:
        """The name that people read: a runtime and a repetition only where somebody asked for them."""
        repetition = f", run {self.number}" if self.origin == "catalogue" and self.number > 1 else ""
        return f"{group_label(self.group)}{repetition}"


def group_label(group: str) -> str:
    """Return the name of a group, or of a target with its runtime, that people read."""
    return group.removesuffix(" (auto)")


def random_job(target: ReleaseTarget, runtime: Runtime, seed: int) -> Job:
    """Return the job that runs the schedule drawn from `seed`."""
    return Job(scenario=f"random-{seed}", target=target, runtime=runtime, number=seed, origin="random")


def catalogue_jobs(
    scenarios: Sequence[Scenario], targets: Sequence[ReleaseTarget] | None, runtime: Runtime, times: int
) -> Iterator[Job]:
    """Yield `times` rounds of jobs: every scenario on every release that it names.

    With `targets`, only on those of its releases, and on the builds for whose version it predicts something. A target
    that sets a feature level which the scenario fixes itself is left out: it would make a different scenario.
    """
    for number in range(1, times + 1):
        for scenario in scenarios:
            named = [ReleaseTarget(kafka=kafka) for kafka in scenario.kafka]
            for target in named if targets is None else targets:
                fixed = scenario.cluster.features.keys() & target.features.keys()
                kafka = target.kafka
                runs_there = predicts(scenario, kafka) if is_build(kafka) else kafka in scenario.kafka
                if runs_there and not fixed:
                    yield Job(scenario=scenario.name, target=target, runtime=runtime, number=number)


def oldest_runs_first(jobs: Iterable[Job], ran: Sequence[str]) -> list[Job]:
    """Sort jobs by round.

    In a round, groups that never ran come first, then those that ran longest ago.

    `ran`: the groups of earlier runs, oldest run first.
    """
    last = {group: at for at, group in enumerate(ran)}
    return sorted(jobs, key=lambda job: (job.number, last.get(job.group, -1)))
