"""Properties and format arguments: what ties a node to its place, and what differs between releases."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from cluster.host.bridge import address_of
from cluster.runtime.properties import (
    cluster_id,
    directory_id,
    format_arguments,
    plan_cluster,
    properties_of,
    refused_value_error,
)
from ebbtide.errors import UsageError
from ebbtide.releases.feature_levels import levels_of
from ebbtide.releases.known_releases import KNOWN, KnownRelease
from ebbtide.scenario.model import ClusterSpec
from ebbtide.scenario.validate_upgrades import FEATURES, validate_features
from ebbtide.scenario.words import CLIENTS


def _properties(spec: ClusterSpec, node_id: int) -> dict[str, str]:
    plan = plan_cluster(spec, address_of)
    return properties_of(plan, plan.nodes[node_id], [Path("/volume/kafka")])


def test_ids_distinguish_controllers_from_brokers() -> None:
    plan = plan_cluster(ClusterSpec(controllers=3, brokers=2), address_of)
    assert [node.name for node in plan.nodes.values()] == [
        "controller-100",
        "controller-101",
        "controller-102",
        "broker-1",
        "broker-2",
    ]
    assert plan.quorum_property()[1] == "100@10.99.0.100:9093,101@10.99.0.101:9093,102@10.99.0.102:9093"


def test_a_published_broker_has_a_listener_that_advertises_the_address_on_the_host() -> None:
    plan = msgspec.structs.replace(plan_cluster(ClusterSpec(brokers=2), address_of), published={1: "127.0.0.1:19092"})
    found = properties_of(plan, plan.nodes[1], [Path("/volume/kafka")])
    assert found["listeners"] == "PLAINTEXT://10.99.0.1:9092,PUBLISHED://10.99.0.1:9094"
    assert found["advertised.listeners"] == "PLAINTEXT://10.99.0.1:9092,PUBLISHED://127.0.0.1:19092"
    assert found["inter.broker.listener.name"] == "PLAINTEXT"
    assert "PUBLISHED:PLAINTEXT" in found["listener.security.protocol.map"]
    for node in (2, 100):
        others = properties_of(plan, plan.nodes[node], [Path("/volume/kafka")])
        assert not any("PUBLISHED" in value for value in others.values())


def test_no_two_nodes_share_an_address() -> None:
    addresses = [address_of(node) for node in (CLIENTS, 1, 2, 6, 100, 101, 102, 253)]
    assert len(set(addresses)) == len(addresses)


def test_the_session_timeout_stands_where_it_counts() -> None:
    assert _properties(ClusterSpec(session_timeout_s=2.5), 100)["broker.session.timeout.ms"] == "2500"
    assert "broker.session.timeout.ms" not in _properties(ClusterSpec(), 1)


def test_a_broker_looks_for_another_controller_early_only_if_there_is_one() -> None:
    name = "controller.quorum.fetch.timeout.ms"
    assert _properties(ClusterSpec(controllers=1), 1)[name] == "60000"
    assert name not in _properties(ClusterSpec(controllers=3), 1)
    assert name not in _properties(ClusterSpec(controllers=1), 100)


def test_nothing_that_decides_what_a_power_loss_takes_is_set() -> None:
    for node in (1, 100):
        names = _properties(ClusterSpec(), node)
        assert not [name for name in names if name.startswith(("log.flush", "flush."))]


def test_a_scenario_may_set_what_kafka_knows() -> None:
    spec = ClusterSpec(broker_properties={"log.flush.interval.messages": "1", "num.io.threads": "9"})
    assert _properties(spec, 1)["log.flush.interval.messages"] == "1"
    assert _properties(spec, 1)["num.io.threads"] == "9"
    assert "log.flush.interval.messages" not in _properties(spec, 100)


def test_a_value_that_kafka_refuses_is_reported_as_the_scenarios() -> None:
    log = (
        'Exception in thread "main" org.apache.kafka.common.config.ConfigException: '
        "Invalid value three for configuration num.io.threads: Not a number of type INT\n\tat Config.parse\n"
    )
    spec = ClusterSpec(broker_properties={"num.io.threads": "three"})
    broker, controller = (plan_cluster(spec, address_of).nodes[id_] for id_ in (1, 100))
    refused = refused_value_error(spec, broker, log)
    assert refused is not None
    assert refused.where == "cluster.broker_properties.num.io.threads"
    assert refused.what == "Kafka refuses num.io.threads = three: Not a number of type INT"
    assert refused_value_error(spec, controller, log) is None, "the scenario gave it to brokers"
    assert refused_value_error(spec, broker, "Killed") is None


def test_a_scenario_may_not_move_a_node() -> None:
    own = {"node.id": "9", "log.dirs": "/tmp", "kafka.csv.metrics.dir": "/tmp", "num.io.threads": "9"}
    with pytest.raises(UsageError, match=r"kafka\.csv\.metrics\.dir, log\.dirs, node\.id"):
        _properties(ClusterSpec(broker_properties=own), 1)


def test_a_small_lag_time_does_not_stop_the_broker_from_starting() -> None:
    properties = _properties(ClusterSpec(replica_lag_max_s=0.2), 1)
    assert int(properties["replica.fetch.wait.max.ms"]) <= int(properties["replica.lag.time.max.ms"])


@pytest.mark.parametrize(("brokers", "replicas", "min_isr"), [(1, "1", "1"), (2, "2", "2"), (6, "3", "2")])
def test_internal_topics_fit_the_cluster(brokers: int, replicas: str, min_isr: str) -> None:
    properties = _properties(ClusterSpec(brokers=brokers), 1)
    assert properties["offsets.topic.replication.factor"] == replicas
    assert properties["transaction.state.log.min.isr"] == min_isr


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
        ("4.4.0", "metadata.version", 34, "7 to 33"),
        ("4.4.0", "share.version", 3, "0 to 2"),
        ("4.0.2", "metadata.version", 6, "7 to 25"),
        ("3.4.1", "metadata.version", 3, "4 to 8"),
    ],
)
def test_a_level_that_a_release_cannot_be_formatted_with_is_refused(
    kafka: str, feature: str, level: int, allowed: str
) -> None:
    with pytest.raises(UsageError, match=f"Kafka {kafka} cannot be formatted") as caught:
        validate_features(kafka, ClusterSpec(features={feature: level}))
    assert allowed in str(caught.value.allowed)


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.version)
def test_every_known_release_says_which_levels_it_has(known: KnownRelease) -> None:
    levels = levels_of(known.version)
    assert levels is not None
    validate_features(known.version, ClusterSpec(features={name: of[-1] for name, of in levels.items()}))
    assert set(levels) <= set(FEATURES)


def test_levels_for_which_nobody_can_tell_are_left_to_kafka() -> None:
    validate_features("9.9.9", ClusterSpec(features={"eligible.leader.replicas.version": 7}))
    unstable = {"unstable.feature.versions.enable": "true"}
    validate_features("4.1.2", ClusterSpec(features={"streams.version": 1}, controller_properties=unstable))


def test_a_cluster_id_is_never_taken_for_an_option() -> None:
    ids = {cluster_id(f"run-{number}") for number in range(500)}
    assert len(ids) == 500
    assert all(len(text) == 22 and not text.startswith("-") for text in ids)


def test_a_dynamic_quorum_is_found_by_its_addresses_and_formatted_with_its_first_voters() -> None:
    spec = ClusterSpec(controllers=3, quorum="dynamic", initial_voters=2)
    plan = plan_cluster(spec, lambda id: f"10.99.0.{id}")
    properties = properties_of(plan, plan.nodes[1], [Path("/data")])
    assert "controller.quorum.voters" not in properties
    servers = "10.99.0.100:9093,10.99.0.101:9093,10.99.0.102:9093"
    assert properties["controller.quorum.bootstrap.servers"] == servers
    first = f"100@10.99.0.100:9093:{directory_id('r', 100)},101@10.99.0.101:9093:{directory_id('r', 101)}"
    joins = ("--no-initial-controllers",)
    assert plan.quorum_arguments(plan.nodes[100], "r", is_first_disk=True) == ("--initial-controllers", first)
    assert plan.quorum_arguments(plan.nodes[100], "r", is_first_disk=False) == joins
    assert plan.quorum_arguments(plan.nodes[102], "r", is_first_disk=True) == joins
    assert plan.quorum_arguments(plan.nodes[1], "r", is_first_disk=True) == joins


def test_a_static_quorum_is_formatted_as_every_release_does() -> None:
    plan = plan_cluster(ClusterSpec(controllers=3), lambda id: f"10.99.0.{id}")
    assert plan.quorum_arguments(plan.nodes[100], "r", is_first_disk=True) == ()
    words = format_arguments("3.9.1", "C", "f.properties", {}, ("--initial-controllers", "x"))
    assert words == ["format", "--cluster-id", "C", "--config", "f.properties", "--initial-controllers", "x"]
