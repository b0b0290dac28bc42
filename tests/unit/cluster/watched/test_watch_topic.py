"""The topic of a watch as an entry of the ledger: deleted by `clean`, or named with the command that deletes it."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
import pytest
from kafka.protocol.metadata import MetadataResponse

from cluster.clean import clean
from cluster.host.ledger import DamagedLedger, EntryMade, LedgerOpened, read_ledger
from cluster.host.processes import ProcessId
from cluster.kafka_api.admin_requests import AdminAnswer, DeleteTopic
from cluster.kafka_api.connection import BrokerConnection, WireError
from cluster.watched import watch_topic
from cluster.watched.watch_topic import TopicRefused, WatchTopic, make_topic, missing_rights
from ebbtide.errors import HarnessError

TOPIC = WatchTopic(run_id="r", name="ebbtide-watch-ab12-t", bootstrap=("a:1", "b:2"))
DEAD = ProcessId(pid=1 << 22, start_ticks=0, boot_id="none")


class StandIn:
    """A broker connection; addresses in `dead` do not answer."""

    dead: tuple[str, ...] = ()
    error = "NONE"
    deleted: list[tuple[str, str]]

    def __init__(self, address: str) -> None:
        self.address = address

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> type[StandIn]:
    StandIn.dead, StandIn.error, StandIn.deleted = (), "NONE", []

    def ask(broker: StandIn, request: DeleteTopic, _timeout_s: float) -> AdminAnswer:
        if broker.address in StandIn.dead:
            raise WireError(f"{broker.address}: refused")
        StandIn.deleted.append((broker.address, request.topic))
        return AdminAnswer(broker=broker.address, error=StandIn.error)

    monkeypatch.setattr(watch_topic, "connection_to", lambda address, _config: StandIn(address))
    monkeypatch.setattr(watch_topic, "ask", ask)
    return StandIn


def ledger_with(folder: Path, entry: WatchTopic) -> Path:
    folder.mkdir(0o700)
    opened = LedgerOpened(run_id="r", owner=DEAD, folder=str(folder))
    lines = [msgspec.json.encode(one) + b"\n" for one in (opened, EntryMade(number=0, entry=entry))]
    path = folder / "r.jsonl"
    path.write_bytes(b"".join(lines))
    path.chmod(0o600)
    return path


def test_clean_deletes_the_topic_of_a_watch_that_was_killed(brokers: type[StandIn], tmp_path: Path) -> None:
    path = ledger_with(tmp_path / "ledger", TOPIC)
    brokers.dead = ("a:1",)
    (outcome,) = clean(path.parent)
    assert brokers.deleted == [("b:2", TOPIC.name)]
    assert outcome.undone == (TOPIC.describe(),)
    assert not path.exists()


def test_a_topic_that_no_broker_deletes_is_named_and_stays_in_the_ledger(
    brokers: type[StandIn], tmp_path: Path
) -> None:
    path = ledger_with(tmp_path / "ledger", TOPIC)
    brokers.dead = TOPIC.bootstrap
    (outcome,) = clean(path.parent)
    assert TOPIC.name in outcome.failed[0]
    assert path.exists()


def test_what_clean_says_of_a_topic_that_stays_is_one_line_with_the_way_out(tmp_path: Path) -> None:
    """The reason is an error with lines of its own: the file that says how to reach the cluster is gone."""
    lost = msgspec.structs.replace(TOPIC, command_config=str(tmp_path / "gone.properties"))
    (outcome,) = clean(ledger_with(tmp_path / "ledger", lost).parent)
    (said,) = outcome.failed
    assert "\n" not in said
    assert said.startswith(f"{TOPIC.describe()}: no broker deleted the topic {TOPIC.name} (")
    assert said.count("gone.properties") == 1
    assert "No such file" in said
    assert "; next: " in said
    assert "ebbtide clean" in said


def test_a_topic_that_is_gone_already_is_no_failure(brokers: type[StandIn]) -> None:
    brokers.error = "UNKNOWN_TOPIC_OR_PARTITION"
    assert TOPIC.undo() is False


def test_a_topic_that_may_not_be_deleted_is_an_error(brokers: type[StandIn]) -> None:
    brokers.error = "TOPIC_AUTHORIZATION_FAILED"
    with pytest.raises(HarnessError, match=r"(?s)TOPIC_AUTHORIZATION_FAILED.*give this user the right Delete"):
        TOPIC.undo()


@pytest.mark.parametrize("wrong", [{"name": "orders"}, {"run_id": "other"}, {"bootstrap": ()}])
def test_a_ledger_that_names_a_topic_of_somebody_else_is_not_believed(
    brokers: type[StandIn], tmp_path: Path, wrong: dict[str, Any]
) -> None:
    path = ledger_with(tmp_path / "ledger", msgspec.structs.replace(TOPIC, **wrong))
    with pytest.raises(DamagedLedger):
        read_ledger(path)
    clean(path.parent)
    assert brokers.deleted == []


class Answer(msgspec.Struct):
    """One topic's answer to CreateTopics."""

    error_code: int
    error_message: str | None = None


@pytest.mark.parametrize(
    ("code", "kind", "said"),
    [
        (36, FileExistsError, "exists"),
        (44, TopicRefused, "POLICY_VIOLATION"),
        (29, TopicRefused, "TOPIC_AUTHORIZATION_FAILED"),
    ],
)
def test_kafkas_refusal_to_make_the_topic_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, code: int, kind: type[Exception], said: str
) -> None:
    class Answers(msgspec.Struct):
        topics: list[Answer]

    monkeypatch.setattr(BrokerConnection, "ask", lambda *_: Answers([Answer(code)]))
    broker = BrokerConnection("a:1", connect_timeout_s=1, request_timeout_s=1)
    with pytest.raises(kind, match=said):
        make_topic(broker, TOPIC.name, partitions=1, replication_factor=3, config={})


def metadata_answer(bits: int, error: int) -> MetadataResponse:
    """An answer to Metadata as it comes from the wire."""
    topic = MetadataResponse.MetadataResponseTopic
    allowed = {bit for bit in range(32) if bits >> bit & 1}
    made = MetadataResponse(
        throttle_time_ms=0,
        brokers=[],
        cluster_id="c",
        controller_id=1,
        topics=[
            topic(error_code=error, name=TOPIC.name, is_internal=False, partitions=[], authorized_operations=allowed)
        ],
        authorized_operations=set(),
    )
    return MetadataResponse.decode(made.encode(version=8), version=8)


@pytest.mark.parametrize(
    ("bits", "error", "missing"),
    [
        (1 << 3 | 1 << 4 | 1 << 6 | 1 << 8, 0, []),
        (1 << 3 | 1 << 8, 0, ["Write", "Delete"]),
        (1 << 31, 0, []),
        (1 << 31, 29, ["Describe"]),
        (1 << 31, 3, None),
    ],
)
def test_the_rights_that_a_user_lacks_are_named(
    monkeypatch: pytest.MonkeyPatch, bits: int, error: int, missing: list[str] | None
) -> None:
    monkeypatch.setattr(BrokerConnection, "ask", lambda *_: metadata_answer(bits, error))
    broker = BrokerConnection("a:1", connect_timeout_s=1, request_timeout_s=1)
    assert missing_rights(broker, TOPIC.name) == missing
