"""Properties and format arguments: what ties a node to its place, and what differs between releases."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.host.bridge import address_of
from harness.known_releases import KNOWN, KnownRelease
from harness.owner.plain import plain
from harness.runner.given import given_properties
from harness.runtime.base import CLIENTS
from harness.runtime.feature_levels import levels_of
from harness.runtime.properties import plan_cluster, properties_of, render
from harness.runtime.storage import check_features, cluster_id, format_arguments
from harness.scenario.admin_meaning import FEATURES
from harness.scenario.model import ClusterSpec


def _properties(spec: ClusterSpec, node_id: int) -> dict[str, str]:
    plan = plan_cluster(spec, address_of)
    return properties_of(plan, plan.nodes[node_id], Path("/volume/kafka"))


def test_controllers_and_brokers_are_told_apart_by_their_ids() -> None:
    plan = plan_cluster(ClusterSpec(controllers=3, brokers=2), address_of)
    assert [node.name for node in plan.nodes.values()] == [
        "controller-100",
        "controller-101",
        "controller-102",
        "broker-1",
        "broker-2",
    ]
    assert plan.voters == "100@10.99.0.100:9093,101@10.99.0.101:9093,102@10.99.0.102:9093"


def test_no_two_nodes_share_an_address() -> None:
    addresses = [address_of(node) for node in (CLIENTS, 1, 2, 6, 100, 101, 102, 253)]
    assert len(set(addresses)) == len(addresses)


def test_the_session_timeout_stands_where_it_counts() -> None:
    assert _properties(ClusterSpec(session_timeout_s=2.5), 100)["broker.session.timeout.ms"] == "2500"
    assert "broker.session.timeout.ms" not in _properties(ClusterSpec(), 1)


def test_nothing_that_decides_what_a_power_loss_takes_is_set() -> None:
    for node in (1, 100):
        names = _properties(ClusterSpec(), node)
        assert not [name for name in names if name.startswith(("log.flush", "flush."))]


def test_a_scenario_may_set_what_kafka_knows() -> None:
    spec = ClusterSpec(broker_properties={"log.flush.interval.messages": "1", "num.io.threads": "9"})
    assert _properties(spec, 1)["log.flush.interval.messages"] == "1"
    assert _properties(spec, 1)["num.io.threads"] == "9"
    assert "log.flush.interval.messages" not in _properties(spec, 100)


@pytest.mark.parametrize(("kafka", "asked"), [("3.6.2", ["broker-2"]), ("3.7.0", ["broker-2", "controller-100"])])
def test_a_node_of_each_role_is_asked_about_its_properties_where_it_answers(kafka: str, asked: list[str]) -> None:
    cluster = ClusterSpec(
        controllers=3,
        brokers=2,
        broker_properties={"num.io.threads": "9"},
        controller_properties={"unclean.leader.election.enable": "true"},
    )
    nodes = [node for node in plan_cluster(cluster, address_of).nodes.values() if node.id != 1]
    given = given_properties(plain(kafka, cluster), nodes)
    assert [f"{one.role}-{one.node}" for one in given] == asked
    assert given[0].names == ("num.io.threads",)
    assert [one.address for one in given] == ["10.99.0.2:9092", "10.99.0.100:9093"][: len(asked)]


def test_a_role_without_properties_is_not_asked() -> None:
    nodes = plan_cluster(ClusterSpec(), address_of).nodes.values()
    assert given_properties(plain("4.3.1", ClusterSpec()), nodes) == []


def test_a_scenario_may_not_move_a_node() -> None:
    with pytest.raises(UsageError, match=r"log\.dirs, node\.id"):
        _properties(ClusterSpec(broker_properties={"node.id": "9", "log.dirs": "/tmp"}), 1)


def test_a_small_lag_time_does_not_stop_the_broker_from_starting() -> None:
    properties = _properties(ClusterSpec(replica_lag_max_s=0.2), 1)
    assert int(properties["replica.fetch.wait.max.ms"]) <= int(properties["replica.lag.time.max.ms"])


@pytest.mark.parametrize(("brokers", "replicas", "min_isr"), [(1, "1", "1"), (2, "2", "2"), (6, "3", "2")])
def test_internal_topics_fit_the_cluster(brokers: int, replicas: str, min_isr: str) -> None:
    properties = _properties(ClusterSpec(brokers=brokers), 1)
    assert properties["offsets.topic.replication.factor"] == replicas
    assert properties["transaction.state.log.min.isr"] == min_isr


def test_a_backslash_survives_the_properties_file() -> None:
    assert render({"a": "b\\c"}) == "a=b\\\\c\n"


def _format(kafka: str, **features: int) -> list[str]:
    named = {name.replace("_", "."): level for name, level in features.items()}
    return format_arguments(kafka, "id", "file", named)[5:]


def test_a_metadata_version_goes_by_name_before_3_9() -> None:
    assert _format("3.4.1", metadata_version=7) == ["--release-version", "3.3-IV3"]
    assert _format("3.9.1", metadata_version=8) == ["--feature", "metadata.version=8"]


def test_a_metadata_version_that_has_no_name_is_refused() -> None:
    with pytest.raises(UsageError, match="99"):
        _format("3.4.1", metadata_version=99)


def test_a_feature_switched_off_needs_no_release_that_has_it() -> None:
    assert _format("3.9.1", eligible_leader_replicas_version=0) == []
    assert _format("4.3.1", eligible_leader_replicas_version=0) == ["--feature", "eligible.leader.replicas.version=0"]
    assert _format("3.9.1", eligible_leader_replicas_version=1) == ["--feature", "eligible.leader.replicas.version=1"]
    assert _format("4.0.2", share_version=0) == []
    assert _format("9.9.9", share_version=0) == ["--feature", "share.version=0"]


@pytest.mark.parametrize(
    ("kafka", "feature", "level", "allowed"),
    [
        ("3.9.1", "eligible.leader.replicas.version", 1, "does not have"),
        ("4.0.2", "eligible.leader.replicas.version", 2, "0 to 1"),
        ("4.3.1", "transaction.version", 3, "0 to 2"),
        ("4.1.2", "streams.version", 1, "streams.version 0"),
        ("4.3.1", "kraft.version", 1, "kraft.version 0"),
        ("4.3.1", "metadata.version", 31, "7 to 30"),
        ("4.0.2", "metadata.version", 6, "7 to 25"),
        ("3.4.1", "metadata.version", 3, "4 to 8"),
    ],
)
def test_a_level_that_a_release_cannot_be_formatted_with_is_refused(
    kafka: str, feature: str, level: int, allowed: str
) -> None:
    with pytest.raises(UsageError, match=f"Kafka {kafka} cannot be formatted") as caught:
        check_features(kafka, ClusterSpec(features={feature: level}))
    assert allowed in str(caught.value.allowed)


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.version)
def test_every_known_release_says_which_levels_it_has(known: KnownRelease) -> None:
    levels = levels_of(known.version)
    assert levels is not None
    check_features(known.version, ClusterSpec(features={name: of[-1] for name, of in levels.items()}))
    assert set(levels) <= set(FEATURES)


def test_levels_for_which_nobody_can_tell_are_left_to_kafka() -> None:
    check_features("9.9.9", ClusterSpec(features={"eligible.leader.replicas.version": 7}))
    unstable = {"unstable.feature.versions.enable": "true"}
    check_features("4.1.2", ClusterSpec(features={"streams.version": 1}, controller_properties=unstable))


def test_a_cluster_id_is_never_taken_for_an_option() -> None:
    ids = {cluster_id(f"run-{number}") for number in range(500)}
    assert len(ids) == 500
    assert all(len(text) == 22 and not text.startswith("-") for text in ids)
