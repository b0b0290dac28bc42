"""What files do not say is never taken for good: an unknown answer, an empty disk, or a note."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.advise.advice import advise
from ebbtide.errors import UsageError
from ebbtide.snapshot.model import ClusterSnapshot
from ebbtide.snapshot.planned import NEXT_TOPIC
from ebbtide.snapshot.text_files import describe_files, snapshot_of
from harness.cli.main import main

LISTING = """Topic: orders\tTopicId: x\tPartitionCount: 1\tReplicationFactor: 3\tConfigs: min.insync.replicas=2
\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 1,2,3\tIsr: 1,2,3\tElr: \tLastKnownElr:\t
"""
NODE = "node.id=1\nprocess.roles=broker\ndefault.replication.factor=3\nmin.insync.replicas=2\n"
VOTERS = "controller.quorum.voters=7@c:9093,8@d:9093,9@e:9093\n"


def read(folder: Path, **texts: str) -> ClusterSnapshot:
    paths = []
    for name, text in texts.items():
        paths.append(folder / name)
        paths[-1].write_text(text)
    return snapshot_of(describe_files(paths), paths)


@pytest.mark.parametrize(
    ("texts", "code", "says"),
    [
        ({"topics": LISTING, "server": NODE + VOTERS}, 0, "Safe: "),
        ({"topics": LISTING.partition("\n")[2], "server": NODE + VOTERS}, 2, "there may be more partitions"),
        ({"topics": LISTING}, 2, "nobody named the controllers, so their majority is unknown"),
        ({"server": NODE + VOTERS}, 2, "3 topics are unknown: no file lists the partitions"),
        ({"server": NODE.replace("factor=3", "factor=1") + VOTERS}, 1, "has no leader then"),
    ],
)
def test_down_is_safe_only_where_files_name_the_controllers_and_the_partitions(
    texts: dict[str, str], code: int, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    files = [str(tmp_path / name) for name in texts]
    assert main(["advise", *files, "--down", "1", "--assume", "kafka=3.9.1"]) == code
    assert says in " ".join(capsys.readouterr().out.split()).replace("have no leader", "has no leader")


def test_a_topic_that_exists_has_not_the_replicas_of_a_new_one(tmp_path: Path) -> None:
    configs = "Dynamic configs for topic {} are:\n  min.insync.replicas=2 sensitive=false synonyms={{}}\n"
    snapshot = read(tmp_path, server=NODE, configs=configs.format("a") + configs.format("__consumer_offsets"))
    assert {one.name: len(one.partitions) for one in snapshot.topics if one.name in ("a", "__consumer_offsets")} == {
        "a": 0,
        "__consumer_offsets": 3,
    }
    resource = """apiVersion: kafka.strimzi.io/v1
kind: KafkaTopic
metadata: {name: a, labels: {strimzi.io/cluster: main}}
spec: {replicas: 2}
"""
    snapshot = read(tmp_path, server=NODE, configs=configs.format("a"), topic=resource)
    assert [len(one.partitions[0].replicas) for one in snapshot.topics if one.name == "a"] == [2]


COMPOSE = """services:
  k1:
    image: apache/kafka:4.1.1
    environment:
      KAFKA_NODE_ID: 1
      KAFKA_PROCESS_ROLES: WHICH
      KAFKA_LOG_DIRS: /data
      KAFKA_METADATA_LOG_DIR: /meta
    volumes: [VOLUMES]
volumes: {fast: {driver_opts: {type: tmpfs, device: tmpfs}}}
"""


@pytest.mark.parametrize(
    ("roles", "volumes", "keeps_disk", "loses_topics", "mount"),
    [
        ("broker,controller", "'a:/data'", True, True, "/meta"),
        ("broker,controller", "'a:/data', 'b:/meta'", True, False, None),
        ("broker,controller", "'b:/meta'", False, False, "/data"),
        ("broker,controller", "'fast:/data', 'C:/m:/meta:rw'", False, False, "/data"),
        ("broker,controller", "'a:/', {type: tmpfs, target: /meta}", True, True, "/meta"),
        ("broker", "'a:/data'", True, False, None),
    ],
)
def test_each_role_has_a_disk_of_its_own_that_a_volume_keeps(
    roles: str, volumes: str, keeps_disk: bool, loses_topics: bool, mount: str | None, tmp_path: Path
) -> None:
    snapshot = read(tmp_path, file=COMPOSE.replace("WHICH", roles).replace("VOLUMES", volumes))
    assert [one.keeps_disk for one in snapshot.brokers] == [keeps_disk]
    gone = "new containers empty 1 of 1 controller: then all topics are gone"
    assert (gone in snapshot.assumed) == loses_topics
    assert [one.partition("Mount a volume at ")[2] for one in snapshot.assumed if "Mount" in one] == [mount] * (
        mount is not None
    )


def test_brokers_that_share_a_log_directory_and_those_of_a_profile_are_noted(tmp_path: Path) -> None:
    text = """services:
  k1: &node
    image: apache/kafka:4.1.1
    environment: {KAFKA_LOG_DIRS: /data/SUB}
    volumes: [a:/data]
  k2: {<<: *node, profiles: [more]}
"""
    said = read(tmp_path, file=text.replace("SUB", "x")).assumed
    assert "k1, k2 have one log directory, a/x: only the first of them that locks it starts" in said
    assert "in k2: the key profiles was not read: the service counts as one that runs" in said
    other = text.replace("{<<: *node,", "{<<: *node, environment: {KAFKA_LOG_DIRS: /data/y},")
    assert not any("one log directory" in one for one in read(tmp_path, file=other.replace("SUB", "x")).assumed)


@pytest.mark.parametrize(("factor", "says"), [(1, "loses"), (3, "survives")])
def test_pods_with_ephemeral_storage_return_empty_one_after_the_other(factor: int, says: str, tmp_path: Path) -> None:
    text = f"""apiVersion: kafka.strimzi.io/v1
kind: Kafka
metadata: {{name: main}}
spec:
  kafka: {{version: 4.1.1, config: {{default.replication.factor: {factor}, min.insync.replicas: 2}}}}
---
apiVersion: kafka.strimzi.io/v1
kind: KafkaNodePool
metadata: {{name: all, labels: {{strimzi.io/cluster: main}}}}
spec: {{replicas: 3, roles: [broker, controller], storage: {{type: ephemeral}}}}
"""
    snapshot = read(tmp_path, file=text)
    assert not any(one.keeps_disk for one in snapshot.brokers)
    (group,) = (one for one in advise(snapshot).groups if NEXT_TOPIC in one.group.topics)
    (line,) = (one.today for one in group.lines if one.key == "containers")
    assert (line.event.what, line.event.likelihood) == ("a broker gets a new container, with an empty disk", "routine")
    assert line.acks_all.says == says


@pytest.mark.parametrize(
    ("racks", "factor", "together"), [("aabbcc", 3, 1), ("aabb", 3, 2), ("aaab", 2, 1), ("abc", 3, 1), ("aaa", 3, 3)]
)
def test_planned_topics_are_placed_on_racks_in_turn(racks: str, factor: int, together: int, tmp_path: Path) -> None:
    nodes = {
        f"n{at}": NODE.replace("node.id=1", f"node.id={at}").replace("factor=3", f"factor={factor}")
        + f"broker.rack={rack}\n"
        for at, rack in enumerate(racks, 1)
    }
    (topic, *_) = read(tmp_path, **nodes).topics
    most = max(max([racks[one - 1] for one in row.replicas].count(rack) for rack in racks) for row in topic.partitions)
    assert most == together
    assert {row.leader for row in topic.partitions} == {at for at, _ in enumerate(racks, 1)}


def test_a_listing_that_is_there_twice_is_read_once(tmp_path: Path) -> None:
    """Also where each of the files that somebody put together began with a mark of its encoding."""
    once = read(tmp_path, topics=LISTING)
    marked = f"\ufeff{LISTING}\ufeff{LISTING}"
    assert read(tmp_path, topics=marked, more=LISTING).topics == once.topics
    with pytest.raises(UsageError, match="do not describe a real cluster"):
        read(tmp_path, topics=LISTING, more=LISTING.replace("Isr: 1,2,3", "Isr: 1,2"))
    with pytest.raises(UsageError, match="do not describe a real cluster"):
        read(tmp_path, topics=LISTING + LISTING.replace("Isr: 1,2,3", "Isr: 1,2"))
