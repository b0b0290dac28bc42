"""The scenario of a cluster that has none: nodes, and nothing on them that would be judged."""

from __future__ import annotations

from ebbtide.record.manifest import PLAIN_CLUSTER
from ebbtide.scenario.model import ClusterSpec, Scenario


def plain(kafka: str, cluster: ClusterSpec) -> Scenario:
    """A cluster of release `kafka` without topics, clients or steps."""
    return Scenario(
        name=PLAIN_CLUSTER,
        title="A cluster for experiments by hand",
        description="Steps are those that were asked for with `ebbtide fault`.",
        kafka=(kafka,),
        cluster=cluster,
        topics={},
        producers=(),
        predictions=(),
    )
