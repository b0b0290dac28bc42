"""Finds the releases of a scenario of which only Maven's repository can say whether they exist.

Any release may be named, because a newer one can work. So such a release is a warning and no error.
"""

from __future__ import annotations

from collections.abc import Iterator

from ebbtide.errors import UsageError
from ebbtide.releases.known_releases import is_known, published_releases
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.steps.process import UpgradeStep


def unknown_releases(scenario: Scenario) -> list[UsageError]:
    """Return a warning for each release of a valid scenario that Ebbtide does not know."""
    return [
        UsageError(
            "Ebbtide does not know this Kafka release; a run ends at once if Maven's repository does not have it",
            where=where,
            got=release,
            allowed=published_releases(release),
            next=f"ebbtide kafka fetch {release}    (says whether it exists)",
        )
        for where, release in _releases_of(scenario)
        if not is_known(release)
    ]


def _releases_of(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Yield each release with its place in the file."""
    for index, text in enumerate(scenario.kafka):
        yield f"kafka[{index}]", text
    if scenario.cluster.formed_on is not None:
        yield "cluster.formed_on", scenario.cluster.formed_on
    for index, step in enumerate(scenario.steps):
        if isinstance(step, UpgradeStep):
            yield f"steps[{index}].to", step.to
