"""Files with misspelled settings, and files that contradict each other or themselves: each is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.advise.groups import groups_of
from cluster.snapshot.security import security_from
from ebbtide.errors import Problems, UsageError
from ebbtide.scenario.kafka_settings import settings_at
from ebbtide.snapshot.model import ClusterSnapshot
from ebbtide.snapshot.setting_names import meant_setting
from ebbtide.snapshot.text_files import describe_files, snapshot_of
from harness.cli.main import main

LISTING = """Topic: orders\tTopicId: x\tPartitionCount: 1\tReplicationFactor: 3\tConfigs: min.insync.replicas=2
\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 1,2,3\tIsr: 1,2,3\tElr: \tLastKnownElr: 
"""
NODE = "node.id=1\nprocess.roles=broker\ndefault.replication.factor=3\n"
OF_TOPIC = "Dynamic configs for topic {} are:\n  min.insync.replicas={} sensitive=false synonyms={{}}\n"
OF_BROKER = "Dynamic configs for broker 1 are:\n  unclean.leader.election.enable={} sensitive=false synonyms={{}}\n"


def read(folder: Path, assumed: dict[str, str] | None = None, **texts: str) -> ClusterSnapshot:
    paths = []
    for name, text in texts.items():
        paths.append(folder / name)
        paths[-1].write_text(text)
    return snapshot_of(describe_files(paths, assumed), paths)


def min_isr(snapshot: ClusterSnapshot) -> dict[str, str]:
    return {one.name: one.configs["min.insync.replicas"] for one in snapshot.topics if not one.name.startswith("_")}


@pytest.mark.parametrize(
    ("name", "place", "meant"),
    [
        ("min.insync.replica", "node", "min.insync.replicas"),
        ("min.in.sync.replicas", "topic", "min.insync.replicas"),
        ("Min.Insync.Replicas", "node", "min.insync.replicas"),
        ("insync.replicas", "node", "min.insync.replicas"),
        ("min.isr", "node", "min.insync.replicas"),
        ("unclean.leader.election.enabled", "node", "unclean.leader.election.enable"),
        ("replication.factor", "node", "default.replication.factor"),
        ("offset.topic.replication.factor", "node", "offsets.topic.replication.factor"),
        ("flush.messages", "node", "log.flush.interval.messages"),
        ("log.cleanup.policy", "topic", "cleanup.policy"),
        ("process.role", "node", "process.roles"),
        ("nodeid", "node", "node.id"),
        ("confluent.metrics.reporter.min.insync.replicas", "node", None),
        ("cruise.control.metrics.topic.min.insync.replicas", "node", None),
        ("share.coordinator.state.topic.min.isr", "node", None),
        ("listener.name.internal.ssl.keystore.location", "node", None),
        ("log.flush.scheduler.intervall.ms", "node", None),
        ("topic.replicas", "node", None),
    ],
)
def test_only_a_name_near_to_one_that_is_read_is_a_mistake(name: str, place: str, meant: str | None) -> None:
    assert meant_setting(name, "topic" if place == "topic" else "node") == meant


def test_no_setting_of_kafka_is_called_a_mistake() -> None:
    assert not [name for place in ("node", "topic") for name in settings_at(place) if meant_setting(name, place)]


STRIMZI = """apiVersion: kafka.strimzi.io/v1
kind: KafkaTopic
metadata: {name: t, labels: {strimzi.io/cluster: t}}
spec: {partition: 3, metricsConfig: {}, config: {min.insync.replica: 2}}
"""
COMPOSE = """services:
  k1: &node
    image: apache/kafka:4.1.1
    environment: {KAFKA_MIN_INSYNC_REPLICA: 2, KAFKA_CFG_NUM_PARTITIONS: 3, KAFKA_HEAP_OPTS: -Xmx1g}
  k2: *node
"""
BITNAMI = """services:
  k:
    image: bitnami/kafka:4.0.0
    environment: [KAFKA_BROKER_ID=1, KAFKA_MIN_INSYNC_REPLICAS=2]
    volume: [a:/bitnami]
"""


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        (NODE + "min.insync.replica=2\nconfluent.tier.feature=x\n", ["in file: Kafka has no broker setting min.ins"]),
        (OF_TOPIC.format("t", 2).replace("replicas=", "replica="), ["in file: Kafka has no topic setting min.insync"]),
        (OF_BROKER.replace("enable=", "enabled="), ["in file: Kafka has no broker setting unclean.leader.election.e"]),
        (
            STRIMZI,
            ["in KafkaTopic t: the key partition was not", "in KafkaTopic t: Kafka has no topic setting min.ins"],
        ),
        (COMPOSE, ["in k1, k2: KAFKA_MIN_INSYNC_REPLICA sets nothing", "in k1, k2: KAFKA_CFG_NUM_PARTITIONS sets no"]),
        (
            BITNAMI,
            ["in k: the key volume was not read, did", "in k: KAFKA_MIN_INSYNC_REPLICAS sets nothing that Kafka"],
        ),
    ],
)
def test_each_reader_notes_what_it_passes_over(text: str, notes: list[str], tmp_path: Path) -> None:
    said = [one for one in read(tmp_path, file=text).assumed if "did you mean" in one]
    assert len(said) == len(notes)
    assert all(one.startswith(note) for one, note in zip(said, notes, strict=True))


@pytest.mark.parametrize(
    ("key", "meant"), [("security.protocl", "security.protocol"), ("sasl.jaas.conf", "sasl.jaas.config")]
)
def test_a_misspelled_client_property_is_an_error_because_the_connection_would_fail(
    key: str, meant: str, tmp_path: Path
) -> None:
    (tmp_path / "c").write_text(f"{key}=x\nsasl.password=x\nbasic.auth.user.info=x\nclient.id=a\n")
    with pytest.raises(UsageError) as refused:
        security_from(tmp_path / "c")
    assert (refused.value.where, refused.value.allowed) == (f"--command-config: {key}", meant)


def test_of_a_topic_whose_configs_only_are_listed_nothing_is_said_but_that(tmp_path: Path) -> None:
    configs = OF_TOPIC.format("orders", 2) + OF_TOPIC.format("payments", 3)
    snapshot = read(tmp_path, topics=LISTING, configs=configs, server=NODE)
    assert min_isr(snapshot) == {"orders": "2", "payments": "3"}
    assert {one.topics: one.partitions for one in groups_of(snapshot)} == {("orders",): 1}
    assert any(one.startswith("no file has the replicas of payments: nothing is said") for one in snapshot.assumed)
    assert not any("in these files" in one for one in snapshot.assumed)


@pytest.mark.parametrize("others", [{"configs": OF_TOPIC.format("orders", 1)}, {"a": OF_TOPIC.format("orders", 3)}])
def test_of_two_values_of_one_topic_the_weakest_counts_and_both_are_named(
    others: dict[str, str], tmp_path: Path
) -> None:
    snapshot = read(tmp_path, topics=LISTING, **others)
    weakest = "1" if "configs" in others else "2"
    assert min_isr(snapshot) == {"orders": weakest}
    (note,) = (one for one in snapshot.assumed if "in these files" in one)
    assert note.endswith(f"in these files: the advice takes {weakest}")


def test_a_broker_that_is_twice_in_a_listing_with_other_values_is_named(tmp_path: Path) -> None:
    snapshot = read(tmp_path, topics=LISTING, configs=OF_BROKER.format("TRUE") + OF_BROKER.format("false"))
    assert snapshot.brokers[0].configs["unclean.leader.election.enable"] == "true"
    assert any(one.startswith("broker 1 has unclean.leader.election.enable TRUE and false") for one in snapshot.assumed)


def test_down_says_what_the_files_get_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "server").write_text(NODE + "min.insync.replica=2\n")
    assert main(["advise", str(tmp_path / "server"), "--assume", "kafka=4.3.1", "--down", "1"]) == 2
    said = " ".join(capsys.readouterr().out.split())
    assert "min.insync.replica, did you mean min.insync.replicas?" in said
    assert "- 3 topics are unknown: no file lists the partitions: the-next-topic" in said


def test_a_broker_may_go_if_a_listing_has_its_partitions_and_its_file_says_that_it_is_no_controller(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "listing").write_text(LISTING)
    (tmp_path / "server").write_text(NODE)
    asked = ["--assume", "kafka=4.3.1", "--down", "2"]
    assert main(["advise", str(tmp_path / "listing"), *asked]) == 2
    assert "their majority is unknown; files with process.roles say who they are" in " ".join(
        capsys.readouterr().out.split()
    )
    # The file of broker 1 says nothing of broker 2.
    assert main(["advise", str(tmp_path / "listing"), str(tmp_path / "server"), *asked]) == 2
    servers = [tmp_path / f"server-{one}" for one in (1, 2, 3, 9)]
    for server, role in zip(servers, ("broker", "broker", "broker", "controller"), strict=True):
        number = server.name.removeprefix("server-")
        server.write_text(NODE.replace("id=1", f"id={number}").replace("roles=broker", f"roles={role}"))
    snapshot = snapshot_of(describe_files([tmp_path / "listing", *servers[:3]]), [tmp_path / "listing"])
    assert (snapshot.controllers, snapshot.knows_controllers) == ((), False)
    for files in (servers[:3], servers):
        assert main(["advise", str(tmp_path / "listing"), *map(str, files), *asked]) == 0


def test_values_in_force_count_above_dynamic_ones(tmp_path: Path) -> None:
    in_force = OF_BROKER.format("false").replace("Dynamic", "All")
    default = OF_BROKER.format("true").replace(
        "Dynamic configs for broker 1", "Default configs for brokers in the cluster"
    )
    first, second, _ = read(tmp_path, topics=LISTING, all=in_force, default=default).brokers
    assert first.configs["unclean.leader.election.enable"] == "false"
    assert second.configs["unclean.leader.election.enable"] == "true"


def test_a_broker_that_two_listings_describe_has_the_weakest_values_of_both(tmp_path: Path) -> None:
    listed = OF_BROKER.replace("Dynamic", "All")
    first, *_ = read(tmp_path, topics=LISTING, all=listed.format("false") * 2).brokers
    assert first.configs["unclean.leader.election.enable"] == "false"
    differing = read(tmp_path, topics=LISTING, all=listed.format("false"), later=listed.format("true"))
    assert differing.brokers[0].configs["unclean.leader.election.enable"] == "true"
    assert any(one.startswith("broker 1 has unclean.leader.election.enable false and") for one in differing.assumed)


@pytest.mark.parametrize("order", [1, -1])
def test_what_a_broker_runs_with_counts_above_its_file(order: int, tmp_path: Path) -> None:
    runs = OF_BROKER.replace("Dynamic", "All").format("true")
    texts = {"server": NODE + "unclean.leader.election.enable=false\n", "all": runs}
    first, *_ = read(tmp_path, topics=LISTING, **dict(list(texts.items())[::order])).brokers
    assert first.configs["unclean.leader.election.enable"] == "true"
    assert first.address == "server"


def test_a_property_that_a_file_has_twice_is_named_with_its_lines(tmp_path: Path) -> None:
    snapshot = read(tmp_path, server=NODE + "min.insync.replicas=2\nmin.insync.replicas=1\n")
    assert "server has min.insync.replicas in lines 4 and 5: Kafka takes the last, 1" in snapshot.assumed


@pytest.mark.parametrize(
    ("text", "what", "got"),
    [
        (STRIMZI + "---\n" + STRIMZI, "a resource is there twice", "KafkaTopic t"),
        (
            LISTING + LISTING.splitlines()[1].replace("Leader: 1", "Leader: 2"),
            "do not describe a real cluster",
            "topic orders has a partition twice",
        ),
        (COMPOSE.replace("{KAFKA", "{KAFKA_NODE_ID: 7, KAFKA"), "1 problem", None),
        (
            STRIMZI.replace("Topic", "NodePool").replace("partition: 3", "replicas: 3, roles: [brokr]"),
            "1 problem",
            None,
        ),
    ],
)
def test_what_is_there_twice_is_an_error(text: str, what: str, got: str | None, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        read(tmp_path, file=text)
    assert what in refused.value.render()
    assert refused.value.got == got


BESIDE = """OpenJDK 64-Bit Server VM warning: Options -Xverify:none and -noverify were deprecated in JDK 13
[0.011s][warning][cds] Archived java heap is not supported
Picked up JAVA_TOOL_OPTIONS: -Xmx64m
SLF4J: Class path contains multiple SLF4J bindings.
DEPRECATED: A Log4j 1.x configuration file has been detected, which is no longer recommended.
[2026-11-30 11:45:24,697] INFO Registered kafka:type=kafka.Log4jController MBean (kafka.utils.Registration$)
[2026-11-30 11:45:24,702] WARN Error connecting to node b2:9092 (org.apache.kafka.clients.NetworkClient)
java.net.UnknownHostException: b2
\tat java.base/java.net.InetAddress.getAllByName(InetAddress.java:1529) ~[?:?]
\t... 12 more
WARN[0000] /srv/compose.yaml: the attribute `version` is obsolete
time="2026-11-30T11:45:24Z" level=warning msg="The FACTOR variable is not set."
Defaulted container "kafka" out of: kafka, kafka-init (init)
WARNING: Due to limitations in metric names, topics with a period could collide

kafka@pod-0:/$ kafka-topics.sh --bootstrap-server localhost:9092 \\
  --describe
"""


def test_what_tools_print_beside_a_listing_is_passed_over(tmp_path: Path) -> None:
    configs = OF_TOPIC.format("orders", 1) + "Dynamic configs for group g are:\n  kafka.Any=\n"
    text = BESIDE + LISTING.replace("\n", f"\n{BESIDE}", 1) + BESIDE + configs + BESIDE
    snapshot = read(tmp_path, file=text)
    assert snapshot.topics == read(tmp_path, file=LISTING, configs=configs).topics
    assert min_isr(snapshot) == {"orders": "1"}


@pytest.mark.parametrize(
    ("text", "line", "got"),
    [
        (LISTING + "garbage\n", 3, "garbage"),
        (LISTING + "\tPartition: 1\tLeader: 1\tReplicas: 1\tIsr: 1\n", 3, "Partition: 1\tLeader: 1"),
        ("[2026-11-30 11:45:24,697] ERROR Timed out (kafka.admin.TopicCommand$)\n" + LISTING, 1, "ERROR Timed out"),
        ("Error while executing topic command : Timed out\n" + LISTING, 1, "Error while executing"),
        (LISTING + "java.net.UnknownHostException: b2\n", 3, "UnknownHost"),
        (LISTING.replace("Count: 1", "Count: 2"), 1, "1 of orders, whose PartitionCount is 2"),
        (LISTING.replace("\tIsr: 1,2,3", ""), 2, "Isr: no column"),
        (LISTING.replace("Leader: 1", "Leader: l"), 2, "Leader: l"),
        (OF_TOPIC.format("orders", 2) + "  min.insync.replicas\n", 3, "min.insync.replicas"),
        ("  min.insync.replicas=1\n" + OF_TOPIC.format("orders", 2), 1, "min.insync.replicas=1"),
    ],
)
def test_a_line_that_no_listing_has_is_an_error_that_names_it(text: str, line: int, got: str, tmp_path: Path) -> None:
    with pytest.raises(Problems) as refused:
        read(tmp_path, file=text)
    (problem,) = refused.value.problems
    assert problem.line == line
    assert got in str(problem.got)


def test_a_listing_without_the_number_of_partitions_may_lack_some(tmp_path: Path) -> None:
    assert any("no PartitionCount of orders" in one for one in read(tmp_path, file=LISTING.partition("\n")[2]).notes)


@pytest.mark.parametrize("deploy", ["", "    deploy: {replicas: 2}\n"])
def test_two_nodes_with_one_id_name_the_services_and_the_variable(deploy: str, tmp_path: Path) -> None:
    text = COMPOSE.replace("{KAFKA", "{KAFKA_NODE_ID: 7, KAFKA").replace("  k2: *node\n", deploy or "  k2: *node\n")
    with pytest.raises(UsageError) as refused:
        read(tmp_path, file=text)
    service, other = ("k1", "k1 2") if deploy else ("k2", "k2")
    said = " ".join(refused.value.render().split())
    assert f"services.{service}: KAFKA_NODE_ID (line 4) got: 7 for k1 and for {other}" in said
    assert "such as 8" in said


@pytest.mark.parametrize(
    ("assumed", "min_isr"),
    [
        ({"kafka": "3.9.1"}, "2"),
        ({"kafka": "4.0.2"}, "2"),
        ({"kafka": "4.3.1"}, "1"),
        ({"kafka": "4.0.2", "eligible.leader.replicas.version": "1"}, "1"),
        ({"kafka": "4.3.1", "eligible.leader.replicas.version": "0"}, "2"),
    ],
)
def test_the_min_isr_of_controllers_counts_only_where_the_assumed_release_may_have_the_elr(
    assumed: dict[str, str], min_isr: str, tmp_path: Path
) -> None:
    controller = "node.id=9\nprocess.roles=controller\n"
    snapshot = read(tmp_path, assumed, broker=NODE + "min.insync.replicas=2\n", controller=controller)
    assert {one.configs["min.insync.replicas"] for one in snapshot.brokers} == {min_isr}
    assert any("with the ELR" in one for one in snapshot.assumed) == (min_isr == "1")


def test_a_node_in_kraft_mode_may_still_name_zookeeper(tmp_path: Path) -> None:
    migrated = read(tmp_path, server=NODE + "zookeeper.connect=z:2181\n").assumed
    assert "server has zookeeper.connect and process.roles: a node in KRaft mode ignores the first" in migrated
    migrating = NODE + "zookeeper.connect=z:2181\nzookeeper.metadata.migration.enable=true\n"
    assert any("takes part in a migration" in one for one in read(tmp_path, server=migrating).assumed)


def test_listings_that_were_copied_from_a_terminal_are_read(tmp_path: Path) -> None:
    configs = OF_BROKER.format("true").replace("\n  ", "\n").replace("Dynamic", "  Dynamic")
    snapshot = read(tmp_path, topics=LISTING.replace("\t", "   "), configs=configs)
    (orders,) = snapshot.topics
    assert (orders.configs, orders.partitions[0].isr) == ({"min.insync.replicas": "2"}, (1, 2, 3))
    assert orders.partitions[0].elr == ()
    assert snapshot.brokers[0].configs == {"unclean.leader.election.enable": "true"}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_files_that_powershell_wrote_are_read(encoding: str, tmp_path: Path) -> None:
    texts = {"listing": LISTING, "topic": STRIMZI.replace("{name: t,", "{name: u,"), "server": "#\n" + NODE}
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding=encoding)
    paths = [tmp_path / name for name in texts]
    snapshot = snapshot_of(describe_files(paths), paths)
    assert [(one.name, one.configs) for one in snapshot.topics] == [("orders", {"min.insync.replicas": "2"}), ("u", {})]
    assert len(snapshot.topics[1].partitions[0].replicas) == 3


def test_a_node_with_settings_of_clients_and_names_in_capitals_is_a_node(tmp_path: Path) -> None:
    server = NODE + "acks=all\nsecurity.protocol=SSL\nlistener.name.CLIENT.ssl.keystore.location=/k\n"
    assert [one.id for one in read(tmp_path, server=server).brokers] == [1, 2, 3]


def test_kafkas_own_topics_get_the_replicas_of_their_settings_also_where_a_listing_names_them(tmp_path: Path) -> None:
    configs = OF_TOPIC.format("__consumer_offsets", 1)
    server = NODE.replace("factor=3", "factor=1") + "offsets.topic.replication.factor=2\n"
    snapshot = read(tmp_path, configs=configs, server=server)
    assert [len(one.partitions[0].replicas) for one in snapshot.topics if one.name == "__consumer_offsets"] == [2]


def test_replicas_of_a_swarm_have_ids_of_their_own(tmp_path: Path) -> None:
    text = COMPOSE.replace("{KAFKA", '{KAFKA_NODE_ID: "{{.Task.Slot}}", KAFKA')
    assert [one.id for one in read(tmp_path, file=text).brokers] == [1, 2]


@pytest.mark.parametrize(("level", "number"), [("3.9", 21), ("3.9-IV0", 21), ("3.9-IVx", None)])
def test_a_metadata_version_is_read_as_kafka_reads_it(level: str, number: int | None, tmp_path: Path) -> None:
    kafka = STRIMZI.replace("KafkaTopic", "Kafka").replace("{partition: 3", f'{{kafka: {{metadataVersion: "{level}"}}')
    snapshot = read(tmp_path, file=kafka)
    assert snapshot.metadata_version == number
    assert (f"Ebbtide does not know the metadataVersion {level}" in snapshot.assumed) == (number is None)


@pytest.mark.parametrize("name", ["Observers", "LiveObservers"])
def test_an_observer_of_confluents_server_is_no_replica_until_it_is_in_the_isr(name: str, tmp_path: Path) -> None:
    listing = f"Topic: a\tPartition: 0\tLeader: 1\tReplicas: 1,2,3,4\tIsr: 1,2,4\tOffline: \t{name}: 3,4\n"
    (topic,) = read(tmp_path, topics=listing).topics
    assert (topic.partitions[0].replicas, topic.partitions[0].isr) == ((1, 2, 4), (1, 2, 4))


@pytest.mark.parametrize(
    ("log_dirs", "is_noted"), [("", True), ("log.dirs=/var/a, /tmp/b\n", True), ("log.dir=/d\n", False)]
)
def test_a_log_that_a_reboot_may_empty_is_noted(log_dirs: str, is_noted: bool, tmp_path: Path) -> None:
    said = read(tmp_path, server=NODE + log_dirs).assumed
    assert any("which a reboot may empty" in one for one in said) == is_noted
