"""`ebbtide scenarios from FILE...`: a scenario that a run takes, with the files' settings, and what was dropped."""

from __future__ import annotations

from pathlib import Path

import pytest
from checkout import ROOT

from ebbtide.scenario.model import Scenario
from ebbtide.scenario.parse import parse
from harness.cli.main import main

ADVISED = ROOT / "tests" / "data" / "advised"
LARGE = """apiVersion: kafka.strimzi.io/v1
kind: KafkaNodePool
metadata: {name: all, labels: {strimzi.io/cluster: main}}
spec: {replicas: 9, roles: [broker, controller], storage: {type: persistent-claim}}
---
apiVersion: kafka.strimzi.io/v1
kind: Kafka
metadata: {name: main}
spec:
  kafka:
    version: 4.0.2
    config:
      default.replication.factor: 3
      min.insync.replicas: 1
      num.io.threads: 5
      authorizer.class.name: example.Own
      no.such.setting: 1
"""
OF_ANOTHER = "".join(
    f"---\napiVersion: kafka.strimzi.io/v1\nkind: {kind}\n"
    f"metadata: {{name: {name}, labels: {{strimzi.io/cluster: other}}}}\n"
    for kind, name in [("KafkaNodePool", "spare"), *(("KafkaTopic", one) for one in "abcd")]
)


def made(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[Scenario, str]:
    """The scenario that the command prints, and its comments in one line."""
    assert main(["scenarios", "from", *map(str, words)]) == 0
    text = capsys.readouterr().out
    assert max(len(line) for line in text.splitlines() if line.startswith("#")) <= 80
    comments = " ".join(line[1:].strip() for line in text.splitlines() if line.startswith("#"))
    return parse(text, file="mine.toml", strict=True), comments


def test_a_large_cluster_is_scaled_and_what_was_dropped_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "Main Cluster.yaml"
    file.write_text(LARGE + OF_ANOTHER)
    scenario, said = made(capsys, file)
    assert scenario.name == "from-main-cluster"
    assert scenario.kafka == ("4.0.2",)
    assert (scenario.cluster.brokers, scenario.cluster.controllers) == (6, 3)
    assert scenario.cluster.broker_properties["num.io.threads"] == "5"
    assert (scenario.topics["t"].replication_factor, scenario.topics["t"].min_isr) == (3, 1)
    assert scenario.predictions[0].loss.committed == "some"
    assert scenario.description.startswith("Written by `ebbtide scenarios from` for Kafka 4.0.2")
    for what in (
        "Dropped: KafkaNodePool spare: strimzi.io/cluster is other, and not main",
        "Dropped: KafkaTopic a, b, c and 1 more: strimzi.io/cluster is other, and not main",
        "Dropped: 3 of 9 brokers: at most 6 run on one machine",
        "Dropped: 9 controllers are 3 here",
        "Dropped: nodes that are broker and controller are two nodes each",
        "authorizer.class.name: a setting that a scenario cannot have",
        "no.such.setting: no setting of Kafka that Ebbtide knows",
    ):
        assert what in said


def test_a_release_that_no_file_says_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    file = ADVISED / "bitnami" / "docker-compose.yaml"
    assert main(["scenarios", "from", str(file)]) == 4
    assert "--assume kafka=4.3.1" in capsys.readouterr().err
    scenario, _ = made(capsys, file, "--assume", "kafka=3.9.1")
    assert scenario.kafka == ("3.9.1",)
    assert (scenario.topics["t"].replication_factor, scenario.cluster.brokers) == (1, 3)
    assert "the-next-topic is any topic that is made with the brokers' defaults." in scenario.description


def test_a_snapshot_gives_a_scenario_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = sorted((ADVISED / "properties").iterdir())
    saved = tmp_path / "cluster.json"
    assert main(["advise", *map(str, files), "--assume", "kafka=3.9.1", "--save", str(saved)]) == 0
    capsys.readouterr()
    scenario, said = made(capsys, saved, "--assume", "kafka=3.9.1", "--topics", "the-*")
    assert scenario.topics["t"].min_isr == 2
    assert "__consumer_offsets" not in said
    _, said = made(capsys, saved, "--assume", "kafka=3.9.1")
    assert "Dropped: RF 3, min ISR 2, cleanup compact: __consumer_offsets, __transaction_state" in said


def test_what_is_dropped_of_brokers_or_controllers_is_said_once_and_of_whom(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "node.id=1\nprocess.roles=broker,controller\nauto.create.topics.enable=true\n"
        "unclean.leader.election.enable=false\nnum.io.threads=4\nleader.imbalance.check.interval.seconds=10\n"
    )
    scenario, said = made(capsys, file, "--assume", "kafka=3.9.1")
    assert said.count("auto.create.topics.enable") == said.count("node.id") == 1
    assert "Dropped: of brokers and controllers: node.id, process.roles: a setting that a scenario cannot have" in said
    assert "auto.create.topics.enable: a property without effect: every topic is there" in said
    for kept in ("unclean.leader.election.enable", "num.io.threads", "leader.imbalance.check.interval.seconds"):
        assert kept in {**scenario.cluster.broker_properties, **scenario.cluster.controller_properties}
        assert kept not in said
