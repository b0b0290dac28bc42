"""What a watch makes and takes of its own: its workload, its topics, and the replicas that it copies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import evidence_builders as build
import pytest

from cluster.host.ledger import Ledger
from cluster.kafka_api.connection import BrokerConnection, Refused, WireError
from cluster.kafka_api.replica_log import LogPart
from cluster.watched.watch_topic import SettingsRefused, TopicRefused
from ebbtide.errors import ExitCode, HarnessError, Problems, UsageError
from ebbtide.logs.checkpoint_file import HIGH_WATERMARKS, read_checkpoint
from ebbtide.logs.segments import TopicPartition
from ebbtide.scenario.model import TopicSpec
from ebbtide.scenario.parse import parse
from ebbtide.scenario.write import text_of
from ebbtide.waiting import WaitExpired
from harness.cli.main import main
from harness.watch import observer, own_topics, watching
from harness.watch.observer import read_replicas
from harness.watch.own_topics import OwnTopics
from harness.watch.plan import RUN_DIGITS, read_workload, scenario_of
from harness.watch.probing import WatchedCluster
from harness.watch.watching import WatchRequest

NAME = "ebbtide-watch-ab12-t"


@pytest.fixture
def topics(monkeypatch: pytest.MonkeyPatch) -> OwnTopics:
    monkeypatch.setattr(BrokerConnection, "api_keys", lambda _self: frozenset())
    return OwnTopics("r", {NAME: TopicSpec()}, ["a:1"], ["a:1"], None)


def refuse(error: Exception) -> object:
    def make(*_: object, **__: object) -> None:
        raise error

    return make


def test_a_topic_that_kafka_refused_is_not_deleted_by_the_ledger(
    topics: OwnTopics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_topics, "make_topic", refuse(TopicRefused("no")))
    with pytest.raises(TopicRefused), Ledger.open("r", tmp_path, ledgers=tmp_path / "ledger") as ledger:
        topics.make(ledger, NAME)


def test_a_topic_whose_request_was_not_answered_stays_in_the_ledger(
    topics: OwnTopics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_topics, "make_topic", refuse(WireError("a:1: timed out")))
    monkeypatch.setattr("cluster.watched.watch_topic.WatchTopic.undo", lambda _self: True)
    with Ledger.open("r", tmp_path, ledgers=tmp_path / "ledger") as ledger:
        with pytest.raises(HarnessError, match="did not answer"):
            topics.make(ledger, NAME)
        assert [entry.describe() for entry in ledger.entries()] == [f"topic {NAME} on the cluster at a:1"]


def test_a_user_without_a_right_is_told_which(topics: OwnTopics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_topics, "missing_rights", lambda *_: ["Write"])
    with pytest.raises(UsageError, match="no Write"):
        topics.check_rights(1.0)


def test_a_broker_that_does_not_know_the_topic_yet_is_asked_again(
    topics: OwnTopics, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([None, None, ["Read"]])
    monkeypatch.setattr(own_topics, "missing_rights", lambda *_: next(answers))
    with pytest.raises(UsageError, match="no Read"):
        topics.check_rights(10.0)


def test_brokers_that_never_answer_about_rights_are_named_with_their_error(
    topics: OwnTopics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_topics, "missing_rights", refuse(WireError("gone")))
    with pytest.raises(WaitExpired, match="last seen: gone"):
        topics.check_rights(0.1)


# The workload of a watch: names of its own, a limited rate, and nothing that writes elsewhere.


WORKLOAD = """
[topics.orders]
replication_factor = 3
min_isr = 2

[[producers]]
id = 1
topic = "orders"
rate_per_s = 50

[[consumers]]
id = 1
topics = ["orders"]

[[predictions]]
kafka = ">=3.3"
clause = "ours"
loss = { none_on = ["orders"] }
"""


def cluster_of(brokers: int = 3) -> WatchedCluster:
    return WatchedCluster(
        brokers={one: f"b{one}:9092" for one in range(1, brokers + 1)},
        voters=(101,),
        features={},
        kafka="4.3.1",
        is_assumed=True,
        release_how="told",
    )


def written(folder: Path, text: str) -> Path:
    path = folder / "workload.toml"
    path.write_text(text)
    return path


def test_topics_get_names_that_are_the_watchs_own(tmp_path: Path) -> None:
    made = scenario_of(cluster_of(), read_workload(written(tmp_path, WORKLOAD)), "ab12")
    assert list(made.topics) == ["ebbtide-watch-ab12-orders"]
    assert made.producers[0].topic == "ebbtide-watch-ab12-orders"
    assert made.consumers[0].topics == ("ebbtide-watch-ab12-orders",)
    assert made.predictions[0].loss.none_on == ("ebbtide-watch-ab12-orders",)


@pytest.mark.parametrize("brokers", [1, 2, 3, 9])
def test_the_scenario_of_a_record_can_be_read_again(brokers: int) -> None:
    made = scenario_of(cluster_of(brokers), None, "ab12")
    assert parse(text_of(made), file="scenario.toml") == made


def test_the_longest_topic_name_makes_a_scenario_that_can_be_read_again_and_a_longer_one_is_refused(
    tmp_path: Path,
) -> None:
    workload = read_workload(written(tmp_path, WORKLOAD.replace("orders", "o" * 41)))
    made = scenario_of(cluster_of(), workload, "0" * RUN_DIGITS)
    assert parse(text_of(made), file="scenario.toml") == made
    with pytest.raises(Problems, match="too long a topic name"):
        read_workload(written(tmp_path, WORKLOAD.replace("orders", "o" * 42)))


def test_retention_takes_no_record_of_a_watch(tmp_path: Path) -> None:
    (topic,) = scenario_of(cluster_of(), read_workload(written(tmp_path, WORKLOAD)), "ab12").topics.values()
    assert topic.config["retention.ms"] == "-1"
    assert topic.config["cleanup.policy"] == "delete"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("rate_per_s = 50", "rate_per_s = 5000", "the producers of a watch are limited"),
        ("rate_per_s = 50", "rate_per_s = 900\npayload_bytes = 1000", "the producers of a watch are limited"),
        ("rate_per_s = 50", "count = 50", "a producer of a watch needs a rate"),
        ("min_isr = 2", "min_isr = 2\nconfig = { 'foo.bar' = '1' }", "no setting of Kafka that Ebbtide knows"),
        ("min_isr = 2", "min_isr = 2\nconfig = { 'cleanup.policy' = '${file:/a:b}' }", "refers to a file"),
        ("rate_per_s = 50", "rate_per_s = 50\ntransactional = true\ntxn_records = 5", "a watch has no transactions"),
        ('topics = ["orders"]', 'topics = ["orders"]\ngroup = "g"', "a watch has no consumer groups"),
        (
            'topics = ["orders"]',
            'topics = ["orders"]\nclient = "librdkafka"',
            "a watch reads with kafka-python only",
        ),
        (
            "[[consumers]]",
            '[[steps]]\nstep = "kill"\ntarget = "broker(1)"\ntrigger = { acked = 1 }\n[[consumers]]',
            "steps",
        ),
        ("rate_per_s", "rate_per_sec", "rate_per_sec"),
    ],
)
def test_what_a_watch_does_not_do_is_refused_before_anything_is_made(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    with pytest.raises(Problems, match=said):
        read_workload(written(tmp_path, WORKLOAD.replace(old, new, 1)))


def test_too_few_brokers_for_a_topic_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="too few brokers"):
        scenario_of(cluster_of(2), read_workload(written(tmp_path, WORKLOAD)), "ab12")


# Each replica of a watch is in raw/, or the record says that it is missing.


T_0 = TopicPartition("t", 0)
NOT_LEADER, UNKNOWN_TOPIC = 6, 3
BATCH = build.plain_batch(0, b"a")


class _Connection:
    def __init__(self, address: str) -> None:
        self.address = address

    def __enter__(self) -> _Connection:
        return self

    def __exit__(self, *_: object) -> None:
        return None


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """What each address answers: bytes of a log, or an error."""
    found: dict[str, object] = {}

    def answer(connection: SimpleNamespace, _: TopicPartition, offset: int) -> LogPart:
        said = found[connection.address]
        if isinstance(said, Exception):
            raise said
        assert isinstance(said, bytes)
        return LogPart(batches=said if offset == 0 else b"", high_watermark=1, log_start=0)

    monkeypatch.setattr(observer, "read_replica", answer)
    return found


def read(raw: Path, assigned: Sequence[int] | None, brokers: Sequence[int] = (1, 2)) -> dict[str, str]:
    addresses = {broker: f"host-{broker}:9092" for broker in brokers}
    return read_replicas(addresses, {T_0: assigned}, raw, _Connection, limit_bytes=1000, timeout_s=5)  # type: ignore[arg-type]


@pytest.mark.parametrize("error", [NOT_LEADER, UNKNOWN_TOPIC])
def test_an_assigned_replica_that_its_broker_does_not_give_is_missing(
    tmp_path: Path, answers: dict[str, object], error: int
) -> None:
    answers.update({"host-1:9092": BATCH, "host-2:9092": Refused(error)})
    assert read(tmp_path, [1, 2]) == {"broker-2/t-0": f"host-2:9092 answers {Refused(error)}"}
    assert not (tmp_path / "broker-2").exists()
    assert read_checkpoint(tmp_path / "broker-1" / HIGH_WATERMARKS) == {T_0: 1}


def test_a_broker_without_a_replica_is_not_missing(tmp_path: Path, answers: dict[str, object]) -> None:
    answers.update({"host-1:9092": BATCH, "host-2:9092": Refused(UNKNOWN_TOPIC)})
    assert read(tmp_path, [1]) == {}
    assert read_checkpoint(tmp_path / "broker-2" / HIGH_WATERMARKS) == {}


def test_where_the_replicas_are_not_known_every_broker_may_have_one(tmp_path: Path, answers: dict[str, object]) -> None:
    answers.update({"host-1:9092": BATCH, "host-2:9092": Refused(UNKNOWN_TOPIC)})
    assert list(read(tmp_path, None)) == ["broker-2/t-0"]


def test_a_replica_on_a_broker_that_came_later_is_missing(tmp_path: Path, answers: dict[str, object]) -> None:
    answers.update({"host-1:9092": BATCH})
    assert list(read(tmp_path, [1, 7], brokers=(1,))) == ["broker-7/t-0"]


def test_a_broker_that_does_not_answer_is_missing_assigned_or_not(tmp_path: Path, answers: dict[str, object]) -> None:
    answers.update({"host-1:9092": BATCH, "host-2:9092": WireError("host-2:9092: refused")})
    assert read(tmp_path, [1]) == {"broker-2/t-0": "host-2:9092: refused"}


WITH_REFUSED_SETTING = """
[topics.t]
partitions = 1
config = { "retention.ms" = "-1", "remote.log.copy.disable" = "1" }

[[producers]]
id = 1
topic = "t"
rate_per_s = 5
"""


def test_a_setting_that_kafka_refuses_is_named_with_its_line_and_the_topic_is_not_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(WITH_REFUSED_SETTING)

    def watch(request: WatchRequest, _display: object) -> Path:
        assert request.workload is not None
        specs = {NAME: request.workload.topics["t"]}
        topics = OwnTopics("r", specs, ["a:1"], ["a:1"], None)
        with Ledger.open("r", tmp_path, ledgers=tmp_path / "ledger") as ledger:
            topics.make(ledger, NAME)
        raise AssertionError

    monkeypatch.setattr(BrokerConnection, "api_keys", lambda _self: frozenset())
    refusal = SettingsRefused("no", message="Unknown topic config name: remote.log.copy.disable")
    monkeypatch.setattr(own_topics, "make_topic", refuse(refusal))
    known = [SimpleNamespace(name=name) for name in ("retention.ms", "remote.log.copy.disabled")]
    monkeypatch.setattr(BrokerConnection, "create_topic", lambda *_, **__: SimpleNamespace(configs=known))
    monkeypatch.setattr(watching, "watch_cluster", watch)
    where = ["--bootstrap", "a:1", "--controllers", "c:1,d:1", "--for", "1s"]
    argv = ["watch", str(file), *where, "--runs", str(tmp_path / "runs")]
    assert main(argv) == ExitCode.USAGE
    assert capsys.readouterr().err.splitlines() == [
        f"error: {file}: 1 problem",
        "  1. Kafka does not know remote.log.copy.disable",
        "     where:   topics.t.config.remote.log.copy.disable (line 4)",
        "     allowed: settings of a topic, in this release (did you mean remote.log.copy.disabled?)",
        f"  next:    ebbtide watch {' '.join(where)} {file}    (once the file is right)",
    ]


ONE_BROKER = WatchedCluster(
    brokers={1: "a:1"}, voters=(), features={}, kafka="4.3.1", is_assumed=False, release_how="as you said"
)


class _Display:
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.mark.parametrize("is_deleted", [True, False])
def test_an_interrupted_watch_says_that_it_deleted_its_topic_or_that_it_could_not(
    is_deleted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def undo(_: object) -> bool:
        if not is_deleted:
            raise HarnessError("no broker deleted the topic")
        return True

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("cluster.host.ledger.ledgers_dir", lambda: tmp_path / "ledger")
    monkeypatch.setattr("cluster.watched.watch_topic.WatchTopic.undo", undo)
    monkeypatch.setattr(watching, "probe_cluster", lambda *_: ONE_BROKER)
    monkeypatch.setattr(OwnTopics, "_ask_for", lambda *_: None)
    monkeypatch.setattr(OwnTopics, "check_rights", interrupt)
    display = _Display()
    request = WatchRequest(bootstrap=("a:1",), duration_s=1.0, runs=tmp_path / "runs")
    with pytest.raises(KeyboardInterrupt if is_deleted else HarnessError) as caught:
        watching.watch_cluster(request, display)  # type: ignore[arg-type]
    (topic,) = [one.split()[3].rstrip(";") for one in display.notes if one.startswith("made the topic")]
    assert (f"deleted {topic}" in display.notes) is is_deleted
    if is_deleted:
        assert display.notes[-1].startswith("recorded, but not judged; next: ebbtide analyze ")
    else:
        assert topic in str(caught.value.got)


def test_a_release_that_no_watch_knows_is_refused_before_a_broker_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(watching, "probe_cluster", lambda *_: pytest.fail("asked before"))
    where = ["--bootstrap", "a:1", "--for", "1s", "--runs", str(tmp_path / "runs")]
    assert main(["watch", *where, "--kafka", "1.0.0"]) == ExitCode.USAGE
    assert "Kafka before 3.3" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(("runs", "option"), [("runs", ""), ("my runs", " --runs 'my runs'")])
def test_the_commands_for_a_watch_that_goes_on_name_the_folder_of_its_record(runs: str, option: str) -> None:
    display = _Display()
    request = WatchRequest(bootstrap=("a:1",), duration_s=0.0, runs=Path(runs))
    watch = watching._Watch(request, ONE_BROKER, display)  # type: ignore[arg-type]
    watch.marks = SimpleNamespace(is_ended=True, entries=[], poll=lambda: False)  # type: ignore[assignment]
    watch._watch(None)  # type: ignore[arg-type]
    assert f"`ebbtide watch mark{option} TEXT`; to end: `ebbtide watch end{option}`" in display.notes[0]
