"""A cluster from Kafka's own listings and a server.properties: what they say is read, what they do not is assumed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_snapshots import ELR

from analysis.advise.advice import advise
from analysis.advise.danger import bring_back, last_holders
from analysis.advise.groups import broker_level, differing_configs
from analysis.advise.headline import headline
from analysis.advise.release import assumed_release
from ebbtide.errors import UsageError
from ebbtide.snapshot.model import ClusterSnapshot, read_snapshot, write_snapshot
from ebbtide.snapshot.planned import NEXT_TOPIC
from ebbtide.snapshot.text_files import describe_files, snapshot_of
from harness.cli.main import main

TOPICS = """Topic: orders\tTopicId: x\tPartitionCount: 2\tReplicationFactor: 3\tConfigs: min.insync.replicas=2,a=b
\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 1,2,3\tIsr: 1,2\tElr: 3\tLastKnownElr: \tAdding Replicas: 3
\tTopic: orders\tPartition: 1\tLeader: none\tReplicas: 4\tIsr: 4\tElr: N/A\tLastKnownElr: N/A
"""
LED = TOPICS.replace("none", "4")
WHOLE = LED.replace("Isr: 1,2\tElr: 3\tLastKnownElr: \tAdding Replicas: 3", "Isr: 1,2,3")
FEATURES = """Feature: eligible.leader.replicas.version\tSupportedMinVersion: 0\tSupportedMaxVersion: 1\t\
FinalizedVersionLevel: 1\tEpoch: 12
Feature: metadata.version\tSupportedMinVersion: 3.3-IV3\tSupportedMaxVersion: 4.1-IV1\tFinalizedVersionLevel: 4.1-IV1
"""
WITHOUT_ELR = FEATURES.partition("\n")[2]
SERVER = """node.id=1
process.roles=broker,controller
controller.quorum.voters=1@a:9093,2@b:9093
broker.rack=a
num.partitions=3
default.replication.factor=3
min.insync.replicas=1
unclean.leader.election.enable=true
offsets.topic.replication.factor=1
transaction.state.log.min.isr=1
"""


def read(folder: Path, **texts: str) -> ClusterSnapshot:
    paths = []
    for name, text in texts.items():
        paths.append(folder / f"{name}.txt")
        paths[-1].write_text(text)
    return snapshot_of(describe_files(paths), paths)


def typed_next(text: str) -> str:
    """What a command prints, with its folded lines as one."""
    return " ".join(text.replace("\\\n", " ").split())


def test_partitions_are_those_of_the_listing(tmp_path: Path) -> None:
    (orders,) = read(tmp_path, topics=TOPICS).topics
    assert orders.configs == {"min.insync.replicas": "2"}
    first, second = orders.partitions
    assert (first.leader, first.replicas, first.isr, first.elr, first.adding) == (1, (1, 2, 3), (1, 2), (3,), (3,))
    assert (second.leader, second.isr, second.elr) == (-1, (4,), None)


def test_brokers_that_no_isr_of_a_leader_has_are_not_alive(tmp_path: Path) -> None:
    """Kafka elects a live broker of an ISR, so a partition without a leader has none."""
    snapshot = read(tmp_path, topics=TOPICS)
    assert [one.id for one in snapshot.brokers] == [1, 2]
    assert last_holders(snapshot, assumed_release("3.9.1", {})) == []
    assert bring_back(snapshot) == (
        "bring brokers 3 and 4 back, with their disks: they have replicas of 2 partitions, of which 1 has no leader; "
        "broker 4 before the others: it was in sync"
    )
    assert [one.id for one in read(tmp_path, topics=LED).brokers] == [1, 2, 4]


@pytest.mark.parametrize(
    "broker",
    [
        "process.roles broker\n",
        "process.roles   = broker\n",
        "log.dirs\nlisteners\n=no name\n",
        "zookeeper.connect=\nbatch.size=\n",
    ],
)
def test_a_property_may_have_a_blank_behind_its_name_or_no_value_as_java_reads_it(tmp_path: Path, broker: str) -> None:
    snapshot = read(tmp_path, server=f"node.id=1\n{broker}min.insync.replicas 2\n")
    assert [one.configs["min.insync.replicas"] for one in snapshot.brokers if one.id == 1] == ["2"]


def test_levels_are_read_by_name_and_by_number(tmp_path: Path) -> None:
    snapshot = read(tmp_path, topics=TOPICS, features=FEATURES)
    assert snapshot.features == {"eligible.leader.replicas.version": 1, "metadata.version": 27}
    assert snapshot.metadata_versions == (7, 27)
    assert not snapshot.assumed


def test_a_broker_has_the_configs_of_its_own_file_and_the_others_those_of_the_first(tmp_path: Path) -> None:
    other = "node.id=2\nmin.insync.replicas=3\nprocess.roles=broker\n"
    first, second, third = read(tmp_path, topics=LED, one=SERVER, two=other, features=WITHOUT_ELR).brokers
    assert (first.rack, first.configs["min.insync.replicas"]) == ("a", "1")
    assert (second.rack, second.configs["min.insync.replicas"]) == (None, "3")
    assert third.configs == first.configs


def test_without_topics_the_next_topic_and_kafkas_own_are_told(tmp_path: Path) -> None:
    snapshot = read(tmp_path, server=SERVER)
    shapes = {one.name: (len(one.partitions), len(one.partitions[0].replicas), one.configs) for one in snapshot.topics}
    assert shapes == {
        NEXT_TOPIC: (3, 3, {}),
        "__consumer_offsets": (3, 1, {"cleanup.policy": "compact"}),
        "__transaction_state": (
            3,
            3,
            {"cleanup.policy": "compact", "unclean.leader.election.enable": "false", "min.insync.replicas": "1"},
        ),
    }
    assert snapshot.controllers == (1, 2)
    assert "3 brokers assumed, 2 of them without a file, alike to server.txt" in snapshot.assumed


def test_a_snapshot_of_files_can_be_saved_and_read(tmp_path: Path) -> None:
    snapshot = read(tmp_path, topics=TOPICS, features=FEATURES, server=SERVER)
    write_snapshot(tmp_path / "c.json", snapshot)
    assert read_snapshot(tmp_path / "c.json") == snapshot


def test_a_snapshot_with_a_field_that_0_3_0_wrote_and_that_is_no_more_is_read(tmp_path: Path) -> None:
    file, snapshot = tmp_path / "c.json", read(tmp_path, topics=TOPICS)
    write_snapshot(file, snapshot)
    plain = json.loads(file.read_text())
    plain["topics"][0]["internal"] = True
    file.write_text(json.dumps(plain))
    assert read_snapshot(file) == snapshot


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        ({"topics": TOPICS.replace("1,2,3", "1,two")}, "not ids of brokers"),
        ({"topics": TOPICS.replace("Replicas: 4", "Replicas: 4,4")}, "the files do not describe a real cluster"),
        ({"features": FEATURES.replace("4.1-IV1", "next")}, "not a feature with its levels"),
        ({"server": SERVER.replace("factor=3", "factor=many")}, "not a value of this setting"),
        ({"server": SERVER + "node.id=one\n"}, "node.id"),
        ({"server": SERVER.replace("min.insync.replicas=1", "min.insync.replicas=")}, "got:     ''\n"),
        ({"server": SERVER + "num.network.threads = \n"}, "got:     ''\n"),
        ({"server": SERVER + "process.roles=brokr\n"}, "broker, controller, or both"),
        ({"topics": TOPICS, "other": "hello"}, "this file does not describe a cluster"),
        ({"hosts": "broker-1.example\nbroker-2.example:9092\n"}, "this file does not describe a cluster"),
        ({"server": SERVER.replace("min.insync.replicas=1", "min.insync.replicas=x")}, "(line 7)"),
    ],
)
def test_what_makes_no_sense_is_one_error(texts: dict[str, str], says: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        read(tmp_path, **texts)
    assert says in refused.value.render()


@pytest.mark.parametrize(
    ("name", "text", "what", "where"),
    [
        ("c.yaml", "a: b: c\n", "broken YAML", "(line 1, column 5)"),
        ("c.yml", "services:\n  k:\n    image: [\n", "broken YAML", "(line 4, column 1)"),
        ("c.json", '{"snapshot_version": 1,\n x}', "broken JSON", "(line 2, column 2)"),
        ("c.txt", '{"brokers": [\n', "broken JSON", "(line 2, column 1)"),
        ("c.properties", "node.id=1\n# two\nprocess.roles=\\\n  broker\na.b=\\u00zz\n", "no four", "(line 5)"),
    ],
)
@pytest.mark.parametrize("beside", [[], ["topics.txt"]])
@pytest.mark.parametrize("verb", [["advise"], ["scenarios", "from"]])
def test_a_broken_file_is_said_to_be_broken_and_where(
    verb: list[str],
    beside: list[str],
    name: str,
    text: str,
    what: str,
    where: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / name).write_text(text)
    (tmp_path / "topics.txt").write_text(TOPICS)
    assert main([*verb, *(str(tmp_path / one) for one in [name, *beside])]) == 4
    first, *said = capsys.readouterr().err.splitlines()
    assert what in first
    assert f"{name} {where}" in " ".join(" ".join(said).split())
    assert said[-1] == "  next:    correct the file, and type the same command again"


def test_a_continued_line_of_a_server_properties_is_read(tmp_path: Path) -> None:
    server = "node.id=7\nprocess.roles=broker\nlisteners=PLAINTEXT://a:1,\\\n  SSL://b:2\nmin.insync.replicas=2\n"
    assert read(tmp_path, server=server).brokers[-1].configs == {"min.insync.replicas": "2"}


def test_danger_in_files_is_not_said_of_a_cluster_that_was_read(tmp_path: Path) -> None:
    listing = "Topic: a\tPartition: 0\tLeader: 2\tReplicas: 1,2,3\tIsr: 2\n"
    features = FEATURES.replace("4.1-IV1", "4.3-IV0")
    advice = advise(read(tmp_path, topics=listing, features=features))
    assert headline(advice).text == "1 partition in danger in these files; topics.txt has no PartitionCount of a"
    assert advice.dangers[0].examples == ("a-0 (on brokers 1,2,3, ISR broker 2)",)
    whole = advise(read(tmp_path, topics=listing.replace("Isr: 2", "Isr: 1,2,3"), features=features))
    seen = "In these files, each listed partition has a leader, and all replicas in the ISR."
    assert headline(whole).more[0] == seen


def test_the_command_asks_for_the_release_and_says_what_is_assumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "server.properties"
    file.write_text(SERVER)
    assert main(["advise", str(file)]) == 4
    assert f"next: ebbtide advise {file} --assume kafka=4.3.1 (" in typed_next(capsys.readouterr().err)
    assert main(["advise", str(file), "--assume", "kafka=4.3.1"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith("2 of 3 topics can lose records acked with acks=all by one common event: ")
    assert "note: no file has the metadata.version: that of the release is assumed" in said
    assert "When it was read" not in said


def test_what_files_do_not_say_is_asked_for_and_is_then_today(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "server.properties"
    file.write_text(SERVER)
    assert main(["advise", str(file), "--down", "2"]) == 4
    assert f"next: ebbtide advise {file} --down 2 --assume kafka=4.3.1 (" in typed_next(capsys.readouterr().err)
    assert main(["advise", str(file), "--down", "2", "--assume", "kafka=4.3.1"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "taking down broker 2, if all replicas are in sync" in said
    assert "note: no file says whether the ELR is on: off is assumed" in said
    assert main(["advise", str(file), "--down", "2", "--assume", "kafka=4.3.1,min.insync.replicas=2"]) == 4
    assert "with --down: kafka, metadata.version, eligible.leader.replicas.version" in " ".join(
        capsys.readouterr().err.split()
    )
    assert main(["advise", str(file), "--assume", "kafka=4.3.1,eligible.leader.replicas.version=1"]) == 0
    said = capsys.readouterr().out
    assert "Kafka 4.3.1, ELR on" in said
    assert "whether the ELR is on" not in said
    assert "assumed:" not in said


CONFIGS = """Dynamic configs for topic orders are:
  min.insync.replicas=3 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:min.insync.replicas=3}
Default configs for brokers in the cluster are:
  min.insync.replicas=2 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:min.insync.replicas=2}
Dynamic configs for broker 2 are:
  unclean.leader.election.enable=true sensitive=false synonyms={}
"""
OF_BROKER_1 = """All configs for broker 1 are:
  advertised.listeners=null sensitive=false synonyms={}
  default.replication.factor=2 sensitive=false synonyms={STATIC_BROKER_CONFIG:default.replication.factor=2}
  log.flush.interval.ms=null sensitive=false synonyms={}
  process.roles=broker sensitive=false synonyms={}
"""


def test_dynamic_configs_count_above_a_file(tmp_path: Path) -> None:
    snapshot = read(tmp_path, topics=LED, server=SERVER, configs=CONFIGS)
    assert snapshot.topics[0].configs["min.insync.replicas"] == "2"
    first, second, _ = snapshot.brokers
    assert first.configs["min.insync.replicas"] == "2"
    assert (
        "no file has the replicas of orders: nothing is said of it without kafka-topics.sh --describe"
        in read(tmp_path, server=SERVER, configs=CONFIGS).assumed
    )
    assert second.configs["unclean.leader.election.enable"] == "true"


@pytest.mark.parametrize("listings", [(LED, CONFIGS, FEATURES), (CONFIGS, FEATURES, LED), (FEATURES, LED, CONFIGS)])
def test_listings_in_one_file_are_read_as_in_files_of_their_own(tmp_path: Path, listings: tuple[str, ...]) -> None:
    own = read(tmp_path, topics=LED, configs=CONFIGS, features=FEATURES)
    together = read(tmp_path, all="".join(listings))
    assert (together.topics, together.features, together.assumed) == (own.topics, own.features, own.assumed)
    assert [one.configs for one in together.brokers] == [one.configs for one in own.brokers]


@pytest.mark.parametrize(
    ("assumed", "elr", "note"),
    [
        ("kafka=3.9.1", "no ELR", "which do not count: Kafka 3.9.1, no ELR, is assumed"),
        (f"kafka=4.3.1,{ELR}=0", "ELR off", "which do not count: Kafka 4.3.1, ELR off, is assumed"),
        ("kafka=4.3.1", "ELR on", "which only an ELR that is on puts there: on is assumed"),
        (f"kafka=4.3.1,{ELR}=1", "ELR on", None),
    ],
)
def test_a_column_elr_with_brokers_says_that_the_elr_is_on(
    tmp_path: Path, assumed: str, elr: str, note: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "topics.txt").write_text(LED)
    main(["advise", str(tmp_path / "topics.txt"), "--assume", assumed, "--all"])
    said = typed_next(capsys.readouterr().out)
    assert f", {elr}, " in said
    assert "the column Elr has brokers, " + note in said if note else "the column Elr" not in said


@pytest.mark.parametrize("assumed", [{"kafka": "4.0.2"}, {"kafka": "4.0.2", ELR: "0"}])
def test_with_an_elr_that_a_listing_shows_the_min_isr_of_controllers_counts(
    tmp_path: Path, assumed: dict[str, str]
) -> None:
    texts = {"topics": LED, "a": "node.id=1\nprocess.roles=broker\nmin.insync.replicas=2\n"}
    for name, text in {**texts, "c": "node.id=9\nprocess.roles=controller\n"}.items():
        (tmp_path / name).write_text(text)
    paths = sorted(tmp_path.iterdir())
    (first, *_) = snapshot_of(describe_files(paths, assumed), paths).brokers
    assert first.configs["min.insync.replicas"] == ("2" if ELR in assumed else "1")


def test_of_a_topic_that_no_listing_has_nothing_is_claimed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "topics.txt").write_text(WHOLE)
    (tmp_path / "configs.txt").write_text(CONFIGS.replace("orders", "payments"))
    words = ["advise", *(str(tmp_path / one) for one in ("topics.txt", "configs.txt")), "--assume", "kafka=4.3.1"]
    assert main(words) == 0
    said = typed_next(capsys.readouterr().out)
    assert "each listed partition has a leader, and all replicas in the ISR." in said
    assert "no file has the replicas of payments: nothing is said of it" in said
    assert main([*words, "--topics", "payments"]) == 4
    assert "no topic with known replicas fits the pattern" in typed_next(capsys.readouterr().err)
    for broker in ("1", "4"):
        assert main([*words, "--down", broker, "--topics", "payments"]) == 2
        said = typed_next(capsys.readouterr().out)
        assert "- 1 topic is unknown: no file lists the partitions: payments note: " in said
        assert "payments-" not in said
        assert f"asked: 0 partitions on broker {broker};" in said


def test_a_broker_whose_configs_are_all_listed_needs_no_other_file(tmp_path: Path) -> None:
    snapshot = read(tmp_path, configs=OF_BROKER_1)
    (topic,) = (one for one in snapshot.topics if one.name == NEXT_TOPIC)
    assert len(topic.partitions[0].replicas) == 2
    assert [one.id for one in snapshot.brokers] == [1, 2, 3]
    assert snapshot.brokers[0].configs == {}


def test_an_unclean_election_of_the_controllers_counts_for_all_brokers(tmp_path: Path) -> None:
    broker = "node.id=1\nprocess.roles=broker\n"
    controller = "node.id=9\nprocess.roles=controller\nunclean.leader.election.enable=true\n"
    (one, *_) = read(tmp_path, one=broker, two=controller).brokers
    assert one.configs == {"unclean.leader.election.enable": "true"}


@pytest.mark.parametrize(
    ("of_others", "name", "weakest"),
    [
        ("min.insync.replicas=2", "min.insync.replicas", "1"),
        ("log.flush.interval.messages=1", "flush.messages", str(2**63 - 1)),
    ],
)
def test_a_broker_that_does_not_set_what_others_do_has_kafkas_default(
    of_others: str, name: str, weakest: str, tmp_path: Path
) -> None:
    node = "node.id={}\nprocess.roles=broker\ndefault.replication.factor=3\n"
    found = read(tmp_path, of_1=node.format(1), **{f"of_{one}": node.format(one) + of_others for one in (2, 3)})
    assert broker_level(found)[name] == weakest
    assert any(one.startswith(f"brokers differ in {name}: ") for one in differing_configs(found))


def test_two_files_of_one_node_are_one_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="two nodes with one id"):
        read(tmp_path, one=SERVER, two=SERVER)


def test_all_wrong_values_of_a_file_are_named_with_their_lines(tmp_path: Path) -> None:
    wrong = SERVER.replace("factor=3", "factor=many").replace("enable=true", "enable=maybe")
    with pytest.raises(UsageError) as refused:
        read(tmp_path, server=wrong)
    assert "2 problems" in refused.value.render()
    assert "(line 6)" in refused.value.render()
    assert "(line 8)" in refused.value.render()


def test_zookeeper_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="metadata in ZooKeeper"):
        read(tmp_path, server="broker.id=1\nzookeeper.connect=z:2181\n")


def test_a_release_without_the_elr_is_not_asked_for_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "server.properties"
    file.write_text(SERVER)
    assert main(["advise", str(file), "--assume", "kafka=3.9.1"]) == 0
    assert "whether the ELR is on" not in capsys.readouterr().out


def test_with_the_elr_the_min_isr_of_the_controllers_counts(tmp_path: Path) -> None:
    broker = "node.id=1\nprocess.roles=broker\nmin.insync.replicas=2\n"
    snapshot = read(tmp_path, broker=broker, controller="node.id=9\nprocess.roles=controller\n")
    assert snapshot.brokers[0].configs == {"min.insync.replicas": "1"}
    assert any("the controllers have min.insync.replicas 1" in one for one in snapshot.assumed)
    without = read(tmp_path, broker=broker, controller="node.id=9\nprocess.roles=controller\n", features=WITHOUT_ELR)
    assert without.brokers[0].configs == {"min.insync.replicas": "2"}


def test_assumed_levels_are_those_that_a_change_begins_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "server.properties"
    file.write_text("process.roles=broker,controller\ndefault.replication.factor=3\nmin.insync.replicas=2\n")
    words = ["--topics", "the-*", "--assume", "kafka=4.3.1,eligible.leader.replicas.version=1", "--json"]
    assert main(["advise", str(file), *words]) == 0
    (group,) = json.loads(capsys.readouterr().out)["groups"]
    assert "kafka=4.4.0" not in {one["assume"] for one in group["changes"]}, "an upgrade turns no ELR off"
