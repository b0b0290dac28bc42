"""The scenario of a plain cluster: nodes without topics and clients."""

from __future__ import annotations

from ebbtide.record.manifest import PLAIN_CLUSTER
from ebbtide.scenario.model import ClusterSpec, Scenario


def plain_scenario(kafka: str, cluster: ClusterSpec) -> Scenario:
    """Return the scenario of a plain cluster of release `kafka`."""
    return Scenario(
        name=PLAIN_CLUSTER,
        title="A cluster for experiments by hand",
        description="Its steps are those of `ebbtide cluster fault`.",
        kafka=(kafka,),
        cluster=cluster,
        topics={},
        producers=(),
        predictions=(),
    )
