"""Files of other tools: each verb that takes a file says what such a file is, and where its lines belong."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ebbtide.errors import ExitCode
from ebbtide.scenario.foreign_files import READABLE, SCENARIO_FILE, foreign_file_error
from harness.cli.main import main

COMPOSE = """# three nodes
services:
  n1:
    image: "apache/kafka:4.3.1"
    environment:
      KAFKA_NODE_ID: 1
      KAFKA_PROCESS_ROLES: broker,controller
      KAFKA_MIN_INSYNC_REPLICAS: "2"
      - KAFKA_CFG_LOG_RETENTION_MS=1000
      KAFKA_HEAP_OPTS: -Xmx1g
"""
SERVER = """# a comment
process.roles=broker,controller
node.id=1
num.partitions = 3
min.insync.replicas=1
unclean.leader.election.enable=true
log.flush.interval.ms=1000
zookeeper.connect=z:2181
"""
STRIMZI = """apiVersion: kafka.strimzi.io/v1
kind: Kafka
metadata:
  name: kafka-cluster
spec:
  kafka:
    version: 4.1.1
    config:
      default.replication.factor: 3
      unclean.leader.election.enable: "true"
"""
TOPICS = (
    "Topic: orders\tTopicId: x\tPartitionCount: 3\tReplicationFactor: 2\tConfigs: min.insync.replicas=2,a=b\n"
    "\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\n"
)
OF_NODES = ["[topics.NAME]", "broker_properties and controller_properties of [cluster]"]
KINDS = {
    "compose.yaml": (COMPOSE, "a Docker Compose file", OF_NODES),
    "server.properties": (SERVER, "a server.properties of Kafka", OF_NODES),
    "strimzi.yaml": (STRIMZI, "a Strimzi resource", OF_NODES),
    "topics.txt": (TOPICS, "the output of kafka-topics --describe", OF_NODES),
    "chaos.yaml": (
        "apiVersion: chaos-mesh.org/v1alpha1\nkind: NetworkChaos\n",
        "a Chaos Mesh NetworkChaos",
        ["[[steps]]"],
    ),
    "pod.yaml": ("apiVersion: v1\nkind: Pod\n", "a Kubernetes Pod", ["[topics.NAME]"]),
    "client.properties": (
        "bootstrap.servers=b:9092\nsecurity.protocol=SSL\n",
        "a properties file of Kafka's clients",
        ["[[producers]]", "a watch takes the file"],
    ),
    "features.txt": (
        "Feature: metadata.version\tSupportedMinVersion: 3.3-IV3\tSupportedMaxVersion: 4.1-IV1\n",
        "the output of kafka-features describe",
        ["`ebbtide advise"],
    ),
    "configs.txt": (
        "Dynamic configs for topic orders are:\n  retention.ms=1 sensitive=false\n",
        "the output of kafka-configs --describe",
        ["[topics.NAME]"],
    ),
    "groups.txt": (
        "GROUP  TOPIC  PARTITION  CURRENT-OFFSET\ng t 0 1\n",
        "the output of kafka-consumer-groups --describe",
        ["`ebbtide advise --bootstrap`"],
    ),
    "quorum.txt": ("ClusterId:   x\nLeaderId:  1\n", "the output of kafka-metadata-quorum", ["`ebbtide advise"]),
    "kcat.txt": ("Metadata for all topics (from broker 1: b:9092/1):\n", "the output of kcat -L", ["`ebbtide advise"]),
    "plan.json": (
        '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}',
        "a plan of kafka-reassign-partitions",
        ["`reassign`"],
    ),
    "toxiproxy.json": (
        '[{"name":"k","listen":"[::]:1","upstream":"b:9092"}]',
        "a configuration of Toxiproxy",
        ["[[steps]]"],
    ),
}


@pytest.mark.parametrize("verb", ["scenarios check", "advise", "run", "analyze"])
@pytest.mark.parametrize("name", KINDS)
def test_a_verb_says_what_the_file_is_and_where_its_lines_belong(
    name: str, verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, what, belongs = KINDS[name]
    if verb == "advise" and what in READABLE:
        pytest.skip("advise reads it")
    file = tmp_path / name
    file.write_text(text)
    assert main([*verb.split(), str(file)]) == ExitCode.USAGE
    error = capsys.readouterr().err
    wanted = {"advise": "a snapshot of a cluster", "analyze": "a run record"}.get(verb, SCENARIO_FILE)
    assert f"error: this is {what}, not {wanted}\n" in error
    for words in belongs:
        assert words in error
    assert "malformed" not in error
    assert "next: " in error


def test_a_server_properties_that_is_toml_is_recognised(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "server.properties"
    file.write_text("node.id=1\nnum.partitions=3\n")
    assert main(["scenarios", "check", str(file)]) == ExitCode.USAGE
    assert "this is a server.properties of Kafka" in capsys.readouterr().err


def test_the_files_of_one_verb_that_are_given_to_another_name_the_verb(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    snapshot, scenario = tmp_path / "cluster.json", tmp_path / "my.toml"
    snapshot.write_text('{\n "snapshot_version": 1}')
    scenario.write_text('name = "x"\n[[producers]]\nid = 1\n')
    assert main(["scenarios", "check", str(snapshot)]) == ExitCode.USAGE
    assert f"next:    ebbtide advise {snapshot}" in capsys.readouterr().err
    assert main(["advise", str(scenario)]) == ExitCode.USAGE
    assert f"next:    ebbtide scenarios check {scenario}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    ["", "name = \n", 'name = "x"\n[[steps]]\nstep = \n', "hello world\n", "a=1\n", "- a\n- b\n", "{}", "\x00\xff"],
)
def test_any_other_file_is_none_of_them(text: str) -> None:
    assert foreign_file_error("x", text, SCENARIO_FILE) is None


def test_a_large_file_is_recognised_quickly() -> None:
    for text in (
        "apiVersion: v1\n" * 70_000,
        "\n \t" * 300_000,
        "Topic: x " * 100_000,
        "services:\n" + " - " * 300_000,
    ):
        began = time.process_time()
        foreign_file_error("x", text, SCENARIO_FILE)
        assert time.process_time() - began < 2
