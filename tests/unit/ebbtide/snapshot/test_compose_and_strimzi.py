"""Files that make clusters: a compose file of each common image, and Strimzi resources, become the same snapshot."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.advise.advice import advise
from ebbtide.errors import Problems, UsageError
from ebbtide.snapshot.model import ClusterSnapshot
from ebbtide.snapshot.planned import NEXT_TOPIC
from ebbtide.snapshot.text_files import describe_files, snapshot_of
from harness.cli.main import main

APACHE = """x-common: &common
  KAFKA_CONTROLLER_QUORUM_VOTERS: 1@c:9093
  KAFKA_DEFAULT_REPLICATION_FACTOR: ${FACTOR:-2}
services:
  c:
    image: apache/kafka:4.1.1
    environment: {KAFKA_NODE_ID: 1, KAFKA_PROCESS_ROLES: controller}
    volumes: [c:/tmp/kafka-logs]
  b2:
    image: apache/kafka:4.1.1
    environment:
      <<: *common
      KAFKA_NODE_ID: 2
      KAFKA_PROCESS_ROLES: broker
      KAFKA_MIN_INSYNC_REPLICAS: "2"
      KAFKA_LOG_DIRS: /data/a,/data/b
      KAFKA_BROKER_RACK: a
    volumes:
      - /srv/kafka:/data
  b3:
    image: apache/kafka:4.1.1
    environment:
      <<: *common
      KAFKA_NODE_ID: 3
      KAFKA_PROCESS_ROLES: broker
      KAFKA_MIN_INSYNC_REPLICAS: ${MIN_ISR}
  init:
    image: apache/kafka:4.1.1
    command: kafka-topics.sh --create --topic t
  ui:
    image: kafbat/kafka-ui
    environment: {KAFKA_CLUSTERS_0_NAME: local}
"""
POOLS = """apiVersion: kafka.strimzi.io/v1
kind: KafkaNodePool
metadata: {name: control, labels: {strimzi.io/cluster: main}}
spec: {replicas: 3, roles: [controller], storage: {type: persistent-claim}}
---
apiVersion: kafka.strimzi.io/v1
kind: KafkaNodePool
metadata: {name: data, labels: {strimzi.io/cluster: main}}
spec:
  replicas: 4
  roles: [broker]
  storage:
    type: jbod
    volumes: [{id: 0, type: ephemeral}]
"""
KAFKA = """apiVersion: kafka.strimzi.io/v1
kind: Kafka
metadata: {name: main}
spec:
  kafka:
    version: 4.0.0
    metadataVersion: 4.0-IV3
    rack: {topologyKey: zone}
    config:
      default.replication.factor: 3
      min.insync.replicas: 2
"""
TOPIC = """apiVersion: v1
kind: List
items:
  - apiVersion: kafka.strimzi.io/v1
    kind: KafkaTopic
    metadata: {name: orders-cr, labels: {strimzi.io/cluster: main}}
    spec: {topicName: orders, partitions: 12, replicas: 2, config: {min.insync.replicas: 1}}
  - apiVersion: kafka.strimzi.io/v1
    kind: KafkaTopic
    metadata: {name: of-another, labels: {strimzi.io/cluster: other}}
    spec: {partitions: 1, replicas: 1}
"""


def read(folder: Path, *texts: str) -> ClusterSnapshot:
    paths = []
    for number, text in enumerate(texts):
        paths.append(folder / f"file-{number}.yaml")
        paths[-1].write_text(text)
    return snapshot_of(describe_files(paths), paths)


def refused(folder: Path, *texts: str) -> str:
    with pytest.raises(UsageError) as error:
        read(folder, *texts)
    return error.value.render()


def factors(snapshot: ClusterSnapshot) -> dict[str, int]:
    return {one.name: len(one.partitions[0].replicas) for one in snapshot.topics}


def test_the_nodes_of_a_compose_file_are_its_services_with_their_environment(tmp_path: Path) -> None:
    snapshot = read(tmp_path, APACHE)
    first, second = snapshot.brokers
    assert (first.id, first.rack, first.configs) == (2, "a", {"min.insync.replicas": "1"})
    assert (second.id, second.configs) == (3, {"min.insync.replicas": "1"})
    assert (snapshot.controllers, snapshot.kafka) == ((1,), "4.1.1")
    assert factors(snapshot) == {NEXT_TOPIC: 2}


def test_what_a_compose_file_leaves_out_is_said(tmp_path: Path) -> None:
    said = " / ".join(read(tmp_path, APACHE).assumed)
    assert "min.insync.replicas of b3 is ${MIN_ISR}, which the file does not say" in said
    assert "b3 keeps its log in the container" in said
    assert "includes were not read" in " ".join(read(tmp_path, "include: [other.yaml]\n" + APACHE).assumed)
    assert "Mount a volume at /tmp/kafka-logs" in said
    assert "2 brokers are on 1 host" in said
    assert "Kafka cannot make __consumer_offsets (3 replicas), __transaction_state (3 replicas)" in said
    assert "the controllers have default.replication.factor 1" in said
    assert "the controllers have min.insync.replicas 1: with the ELR" in said


def test_each_image_has_its_own_defaults_and_names(tmp_path: Path) -> None:
    bitnami = "services:\n  k:\n    image: bitnami/kafka:3.6\n    environment: [KAFKA_CFG_NUM_PARTITIONS=3]\n"
    snapshot = read(tmp_path, bitnami)
    assert factors(snapshot) == {NEXT_TOPIC: 1, "__consumer_offsets": 1, "__transaction_state": 1}
    assert len(snapshot.topics[0].partitions) == 3
    assert (snapshot.kafka, snapshot.metadata_versions) == (None, (4, 14))
    confluent = "services:\n  k:\n    image: confluentinc/cp-kafka:7.6.1\n    volumes: [d:/var/lib/kafka/data]\n"
    snapshot = read(tmp_path, confluent)
    assert (snapshot.metadata_versions, factors(snapshot)) == ((4, 14), {NEXT_TOPIC: 1})
    assert not any("in the container" in one for one in snapshot.assumed)
    apache = "services:\n  k:\n    image: apache/kafka:latest\n"
    assert factors(read(tmp_path, apache))["__consumer_offsets"] == 1


def test_a_compose_file_of_one_host_has_a_part_of_the_brokers(tmp_path: Path) -> None:
    assert read(tmp_path, APACHE).on_one_host
    one = APACHE.replace("1@c:9093", "1@c:9093,8@other:9093,9@another:9093")
    assert not read(tmp_path, one).on_one_host
    one = one.replace("PROCESS_ROLES: broker\n", "PROCESS_ROLES: broker,controller\n")
    assert [one.id for one in read(tmp_path, one).brokers] == [1, 2, 3, 8, 9]
    dynamic = ALONE.replace("broker, KAFKA_MIN", "'broker,controller', KAFKA_DEFAULT_REPLICATION_FACTOR: 3, KAFKA_MIN")
    servers = "KAFKA_CONTROLLER_QUORUM_BOOTSTRAP_SERVERS"
    assert len(read(tmp_path, dynamic.replace("KAFKA_NODE", f"{servers}: 'a:1,b:1', KAFKA_NODE")).brokers) == 3
    assert len(read(tmp_path, dynamic.replace("KAFKA_NODE", f"{servers}: 'a:1', KAFKA_NODE")).brokers) == 1


def test_all_that_is_wrong_in_a_compose_file_is_one_error_with_lines(tmp_path: Path) -> None:
    said = refused(tmp_path, APACHE.replace('"2"', "two").replace("FACTOR:-2", "FACTOR:-many"))
    assert "3 problems" in said
    assert "services.b2: min.insync.replicas (line 15)" in said
    assert "no service of this compose file is a Kafka node" in refused(tmp_path, "services:\n  db: {image: pg}\n")
    assert "metadata in ZooKeeper" in refused(
        tmp_path, "services:\n  k:\n    image: cp-kafka\n    environment: {KAFKA_ZOOKEEPER_CONNECT: 'z:2181'}\n"
    )
    assert "(line 4, column 1)" in refused(tmp_path, "services:\n  k:\n    image: [\n")
    assert "the same key twice" in refused(tmp_path, "services:\n  k: {}\n  k: {}\n")


def test_strimzi_resources_of_several_files_are_one_cluster(tmp_path: Path) -> None:
    snapshot = read(tmp_path, KAFKA, POOLS, TOPIC)
    assert [one.id for one in snapshot.brokers] == [3, 4, 5, 6]
    assert snapshot.controllers == (0, 1, 2)
    assert {"main-data-3", "main-data-4", "main-data-5"} <= {one.address for one in snapshot.brokers}
    assert (snapshot.kafka, snapshot.features) == ("4.0.0", {"metadata.version": 25})
    assert snapshot.unsaid == ("eligible.leader.replicas.version",)
    (orders,) = (one for one in snapshot.topics if one.name == "orders")
    assert (len(orders.partitions), orders.configs) == (12, {"min.insync.replicas": "1"})
    assert factors(snapshot)[NEXT_TOPIC] == 3
    assert "of-another" not in factors(snapshot)
    said = " / ".join(snapshot.assumed)
    assert said.startswith("Dropped: KafkaTopic of-another: strimzi.io/cluster is other, and not main / ")
    assert "the storage of data is ephemeral: a new pod, as of a rolling update, has an empty disk" in said
    assert "racks are those of zone" in said
    unlabelled = read(tmp_path, KAFKA, POOLS, TOPIC.replace("labels: {strimzi.io/cluster: main}", "labels: {}"))
    assert "orders" not in factors(unlabelled)
    said = " / ".join(unlabelled.assumed)
    assert "Dropped: KafkaTopic orders-cr: strimzi.io/cluster is no label of it, so Strimzi ignores it / " in said
    status = "\n    status: {conditions: [{type: NotReady, status: 'True', message: no RF change}]}\n"
    unready = read(
        tmp_path, KAFKA, POOLS, TOPIC.replace("min.insync.replicas: 1}}\n", "min.insync.replicas: 1}}" + status)
    )
    says = "KafkaTopic orders-cr is not ready, so the cluster may not be as it says: no RF change"
    assert says in unready.assumed
    assert not any("is not ready" in one for one in snapshot.assumed)
    nameless = read(tmp_path, KAFKA.replace("{name: main}", "{}"), POOLS)
    assert [one.id for one in nameless.brokers] == [3, 4, 5, 6]


def test_wrong_strimzi_resources_are_one_error(tmp_path: Path) -> None:
    wrong = KAFKA.replace("min.insync.replicas: 2", "min.insync.replicas: [2]").replace(": 3\n", ": x\n")
    said = refused(tmp_path, wrong)
    assert "2 problems" in said
    assert "Kafka main: default.replication.factor (line 10)" in said
    assert "several clusters" in refused(tmp_path, KAFKA, KAFKA.replace("{name: main}", "{name: other}"))
    assert "metadata in ZooKeeper" in refused(tmp_path, KAFKA + "  zookeeper: {replicas: 3}\n")


def test_a_kafka_resource_without_pools_has_as_many_brokers_as_its_topics_need(tmp_path: Path) -> None:
    snapshot = read(tmp_path, KAFKA)
    assert len(snapshot.brokers) == 3
    assert {one.configs["min.insync.replicas"] for one in snapshot.brokers} == {"2"}


def test_a_release_that_ebbtide_does_not_know_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "compose.yaml"
    file.write_text("services:\n  a:\n    image: apache/kafka:2.8.1\n")
    assert main(["advise", str(file)]) == 4
    assert "does not know the release of the files, Kafka 2.8.1" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("flow", "brokers"),
    [
        ("{services: {k: {image: 'apache/kafka:4.1.1', environment: {KAFKA_NODE_ID: 7}}}}", [7]),
        ('{"name": "x", "services": {"k": {"image": "apache/kafka:4.1.1", "environment": {"KAFKA_NODE_ID": 7}}}}', [7]),
        (
            '{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "kafka.strimzi.io/v1", '
            '"kind": "KafkaNodePool", "metadata": {"name": "a"}, '
            '"spec": {"replicas": 1, "roles": ["broker", "controller"]}}]}',
            [0],
        ),
    ],
)
def test_yaml_in_its_flow_style_is_read_as_any_other(tmp_path: Path, flow: str, brokers: list[int]) -> None:
    assert [one.id for one in read(tmp_path, flow).brokers] == brokers


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("{services: {k: {image: 'apache/kafka:4.1.1', environment: {KAFKA_NODE_ID: ''}}}}", "services.k: node.id"),
        ("{services: {k: {image: 'apache/kafka:4.1.1', environment: [KAFKA_NUM_IO_THREADS=]}}}", "num.io.threads"),
        (POOLS.replace("replicas: 4", "replicas: ''"), "KafkaNodePool data"),
    ],
)
def test_an_empty_number_is_one_error(tmp_path: Path, text: str, where: str) -> None:
    with pytest.raises(Problems) as refused:
        read(tmp_path, text)
    (problem,) = refused.value.problems
    assert where in str(problem.where)
    assert problem.got == "''"


def test_a_variable_whose_default_is_empty_says_nothing_of_its_setting(tmp_path: Path) -> None:
    variables = "KAFKA_NUM_IO_THREADS: '${THREADS:-}', KAFKA_DEFAULT_REPLICATION_FACTOR: '${FACTOR:-}'"
    image = "image: '${REGISTRY:-}apache/kafka:4.1.1'"
    snapshot = read(tmp_path, f"{{services: {{k: {{{image}, environment: {{KAFKA_NODE_ID: 7, {variables}}}}}}}}}")
    assert [broker.id for broker in snapshot.brokers] == [7]
    assert any("default.replication.factor of k is ${FACTOR:-}" in note for note in snapshot.assumed)


def test_two_nodes_with_one_id_are_one_error_that_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "one.properties").write_text("node.id=7\nprocess.roles=broker\n")
    (tmp_path / "compose.yaml").write_text(MOUNTS.replace("MOUNT", "a:b").replace("{KAFKA", "{KAFKA_NODE_ID: 7, KAFKA"))
    with pytest.raises(UsageError, match="two nodes with one id") as refused:
        snapshot_of(
            describe_files([tmp_path / "compose.yaml", tmp_path / "one.properties"]),
            [tmp_path / "compose.yaml", tmp_path / "one.properties"],
        )
    assert (refused.value.next or "").endswith("in a compose file, its service mounts its server.properties")


def test_flow_style_of_something_else_is_not_called_broken_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "other.yaml"
    file.write_text("{some: thing}\n")
    assert main(["advise", str(file)]) == 4
    said = capsys.readouterr().err
    assert "this file does not describe a cluster" in said
    assert "JSON" not in said.partition("allowed:")[0]


SWARM = """services:
  k1: &broker
    image: apache/kafka:4.1.1
    environment: {KAFKA_DEFAULT_REPLICATION_FACTOR: 2}
    volumes: [a:/tmp/kafka-logs]
  k2:
    <<: *broker
    volumes: [b:/tmp/kafka-logs]
"""
ON = "    deploy: {{placement: {{constraints: ['node.hostname == {}']}}}}\n"


@pytest.mark.parametrize(
    ("added", "on_one_host", "note"),
    [
        (("", ""), True, "2 brokers are on 1 host"),
        (("    deploy: {resources: {}}\n",) * 2, True, "2 brokers are on 1 host"),
        ((ON.format("h1"), ON.format("h1")), True, "2 brokers are on 1 host"),
        ((ON.format("h1"), ON.format("h2")), False, None),
        (("    deploy: {mode: global}\n", ON.format("h2")), False, "Docker Swarm places the brokers of this file"),
        (("", ON.format("h2")), False, "Docker Swarm places the brokers of this file"),
        (
            (ON.format("h1"), ON.format("h2").replace("{pl", "{replicas: 2, pl")),
            False,
            "3 brokers are on 2 hosts",
        ),
        (("", "networks: {net: {driver: overlay}}\n"), False, "Docker Swarm places the brokers of this file"),
    ],
)
def test_docker_swarm_may_place_brokers_on_hosts_of_their_own(
    added: tuple[str, str], on_one_host: bool, note: str | None, tmp_path: Path
) -> None:
    text = SWARM.replace("  k2:\n", f"{added[0]}  k2:\n") + added[1]
    snapshot = read(tmp_path, text)
    assert snapshot.on_one_host == on_one_host
    said = [one for one in snapshot.assumed if " host" in one]
    assert [one.startswith(note or "") for one in said] == [True] * (note is not None)


@pytest.mark.parametrize(
    ("kept", "says", "likely"), [(0, "loses", "routine"), (1, "survives", "routine"), (2, None, "")]
)
def test_new_containers_empty_all_disks_that_no_volume_keeps_at_once(
    kept: int, says: str | None, likely: str, tmp_path: Path
) -> None:
    text = SWARM
    for name in "ab"[kept:]:
        text = text.replace(f"[{name}:", "[")
    text = text.replace("{KAFKA", "{KAFKA_PROCESS_ROLES: 'broker,controller', KAFKA")
    snapshot = read(tmp_path, text)
    gone = [one for one in snapshot.assumed if one.endswith("then all topics are gone")]
    assert gone == ["new containers empty 2 of 2 controllers: then all topics are gone"] * (kept == 0)
    elsewhere = read(tmp_path, text.replace("{KAFKA", "{KAFKA_METADATA_LOG_DIR: /meta, KAFKA"))
    assert "new containers empty 2 of 2 controllers: then all topics are gone" in elsewhere.assumed
    (group,) = (one for one in advise(snapshot).groups if NEXT_TOPIC in one.group.topics)
    found = [one.today for one in group.lines if one.key == "containers"]
    assert [(one.acks_all.says, one.event.likelihood) for one in found] == [(says, likely)] * (says is not None)


@pytest.mark.parametrize("voters", ["1@c:9093", "1@c:9093,9@other:9093"])
def test_what_a_file_says_of_all_controllers_is_known(voters: str, tmp_path: Path) -> None:
    text = APACHE.replace("1@c:9093", voters).replace(
        "KAFKA_LOG_DIRS", "KAFKA_UNCLEAN_LEADER_ELECTION_ENABLE: 'true'\n      KAFKA_LOG_DIRS"
    )
    notes = advise(read(tmp_path, text)).notes
    assert any("controllers decide on unclean elections" in one for one in notes) == ("other" in voters)


ALONE = """services:
  b:
    image: apache/kafka:4.1.1
    extends: {service: a}
    environment: {KAFKA_NODE_ID: 2, KAFKA_PROCESS_ROLES: broker, KAFKA_MIN_INSYNC_REPLICAS: 2}
"""


def test_a_broker_without_its_controllers_is_said_to_depend_on_them(tmp_path: Path) -> None:
    said = read(tmp_path, ALONE).assumed
    assert "no file is of a controller: with the ELR, its min.insync.replicas counts for all brokers" in said
    assert "what b extends was not read: settings there are not known" in said
    said = read(tmp_path, ALONE.replace("4.1.1", "4.0.0")).assumed
    assert not any("no file is of a controller" in one for one in said)


MOUNTS = """services:
  k:
    image: apache/kafka:4.1.1
    environment: {KAFKA_NUM_PARTITIONS: 4}
    volumes: [MOUNT]
"""


@pytest.mark.parametrize(
    "mount", ["./k.properties:/opt/kafka/config/server.properties:ro", "{source: ., target: /mnt/shared/config}"]
)
def test_a_server_properties_that_a_service_mounts_is_that_service(tmp_path: Path, mount: str) -> None:
    name = "server.properties" if "{" in mount else "k.properties"
    (tmp_path / name).write_text("node.id=7\nprocess.roles=broker,controller\nmin.insync.replicas=2\n")
    compose = tmp_path / "compose.yaml"
    compose.write_text(MOUNTS.replace("MOUNT", mount))
    alone = snapshot_of(describe_files([compose]), [compose])
    assert "k mounts a server.properties, which was not read: give it beside this file" in alone.assumed
    snapshot = snapshot_of(describe_files([compose, tmp_path / name]), [compose, tmp_path / name])
    (broker,) = snapshot.brokers
    assert (broker.id, broker.address, broker.configs) == (7, "k", {"min.insync.replicas": "2"})
    assert len(snapshot.topics[0].partitions) == 4
    # The logs are in /tmp of the container, which no reboot empties.
    assert not any("was not read" in one or "reboot" in one for one in snapshot.assumed)


def test_a_mount_that_no_file_can_be_is_not_read(tmp_path: Path) -> None:
    said = read(tmp_path, MOUNTS.replace("MOUNT", r'"a\0b:/mnt/shared/config"')).assumed
    assert "k mounts a server.properties, which was not read: give it beside this file" in said
