"""The final read: what it does when Kafka refuses it, and how long it waits for transactions and for replicas' HWs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from client_configs import final_read_config
from kafka.errors import KafkaError, NotLeaderForPartitionError, TopicAuthorizationFailedError

from cluster.kafka_api.connection import LATEST, NONE, UNKNOWN_TOPIC, OffsetAnswer, Refused, WireError
from cluster.kafka_api.replica_log import LogPart
from ebbtide.errors import UsageError
from ebbtide.logs.segments import TopicPartition
from ebbtide.record.manifest import FinalOffsets
from ebbtide.waiting import WaitExpired
from workloads import ended_transactions, final_read, replica_high_watermarks
from workloads.config import AnsweredHighWatermarks, Endpoints
from workloads.ended_transactions import await_ended_transactions
from workloads.process import ClientState, StatusFile, Stop
from workloads.replica_high_watermarks import ask_high_watermarks


def read_that_meets(error: Exception, folder: Path, monkeypatch: pytest.MonkeyPatch, timeout_s: float) -> ClientState:
    def refuse(*_: object) -> NoReturn:
        raise error

    monkeypatch.setattr(final_read, "read_once", refuse)
    endpoints = Endpoints(status=str(folder / "s"), stop=str(folder / "stop"))
    config = final_read_config(endpoints=endpoints, bootstrap=("a:1",), timeout_s=timeout_s)
    status = StatusFile.create(folder / "s", 0)
    return final_read.run(config, status, Stop(endpoints.stop))


def test_a_right_that_is_missing_ends_the_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    denied = TopicAuthorizationFailedError({"t"})
    with pytest.raises(UsageError, match="may not read") as caught:
        read_that_meets(denied, tmp_path, monkeypatch, timeout_s=600)
    assert caught.value.where == "t"


def test_a_read_that_is_stopped_ends_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stop").touch()
    assert read_that_meets(KafkaError("never"), tmp_path, monkeypatch, timeout_s=600) == ClientState.STOPPED


def test_what_may_pass_is_tried_again_until_the_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WaitExpired, match="NotLeader"):
        read_that_meets(NotLeaderForPartitionError(), tmp_path, monkeypatch, timeout_s=0.5)


T, U = ("t", 0), ("u", 0)


def ends(
    answers: Mapping[str, int], monkeypatch: pytest.MonkeyPatch, gone: tuple[str, ...] = ("t",)
) -> dict[tuple[str, int], tuple[int, int]]:
    """Return the ends of t-0 and u-0, where each broker answers for t-0 with an error; broker a leads u-0."""

    @contextmanager
    def connection(_: object, address: str) -> Iterator[Any]:
        def list_offsets(partitions: list[tuple[str, int]], _: int) -> list[Any]:
            errors = {T: answers[address], U: NONE if address == "a" else 6}
            return [
                SimpleNamespace(topic=topic, partition=number, error=errors[topic, number], offset=7, leader_epoch=1)
                for topic, number in partitions
            ]

        yield SimpleNamespace(list_offsets=list_offsets)

    monkeypatch.setattr(final_read, "connection_to", connection)
    config = final_read_config(bootstrap=tuple(answers), topics={"t": 1, "u": 1}, gone=gone)
    return {key: (end.log_start, end.high_watermark) for key, end in final_read.ask_ends(config, [T, U]).items()}


def test_a_topic_that_is_gone_and_that_no_broker_knows_has_no_records(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ends({"a": UNKNOWN_TOPIC, "b": UNKNOWN_TOPIC}, monkeypatch) == {T: (0, 0), U: (7, 7)}


@pytest.mark.parametrize(
    ("answers", "gone"),
    [({"a": UNKNOWN_TOPIC, "b": 6}, ("t",)), ({"a": UNKNOWN_TOPIC, "b": UNKNOWN_TOPIC}, ())],
    ids=["a-broker-knows-it", "the-metadata-log-has-it"],
)
def test_a_topic_that_somebody_knows_is_awaited(
    monkeypatch: pytest.MonkeyPatch, answers: Mapping[str, int], gone: tuple[str, ...]
) -> None:
    with pytest.raises(final_read._UnsettledRead, match="no leader answers for t-0"):
        ends(answers, monkeypatch, gone)


class Broker:
    """Stands for a broker that coordinates `states` and leads `t-0`, with an LSO and a HW."""

    def __init__(self, states: dict[str, str] | None = None, *, last_stable: int = 9, leads: bool = True) -> None:
        self.states = states
        self.last_stable = last_stable
        self.leads = leads

    def list_offsets(
        self, partitions: list[tuple[str, int]], timestamp: int, *, committed: bool = False
    ) -> list[OffsetAnswer]:
        assert timestamp == LATEST
        offset = self.last_stable if committed else 9
        error = NONE if self.leads else 6
        return [
            OffsetAnswer(topic=topic, partition=number, error=error, offset=offset, leader_epoch=0)
            for topic, number in partitions
        ]


class Clock:
    """Time that passes only in pauses; `at` has what happens at which second."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.at: dict[float, Any] = {}

    def pause(self, seconds: float) -> None:
        self.now_s += seconds
        for at_s in [one for one in self.at if one <= self.now_s]:
            self.at.pop(at_s)()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(ended_transactions, "pause", clock.pause)
    monkeypatch.setattr(ended_transactions.time, "monotonic", lambda: clock.now_s)
    return clock


AwaitEnd = Callable[..., Any]


@pytest.fixture
def await_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, clock: Clock) -> AwaitEnd:
    """Wait for the end of the transactions that these brokers coordinate."""

    def wait(*brokers: Broker) -> Any:
        by_address = {f"b{number}:1": broker for number, broker in enumerate(brokers)}

        @contextmanager
        def connect(_: Endpoints, address: str) -> Iterator[Broker]:
            yield by_address[address]

        def states(broker: Broker) -> dict[str, str]:
            if broker.states is None:
                raise WireError("no answer")
            return broker.states

        monkeypatch.setattr(ended_transactions, "connection_to", connect)
        monkeypatch.setattr(ended_transactions, "transaction_states", states)
        config = final_read_config(bootstrap=tuple(by_address), transactional_ids=("ebbtide-1",), transactions_s=35.0)
        return await_ended_transactions(config, Stop(str(tmp_path / "stop")))

    return wait


@pytest.mark.parametrize(
    ("states", "last_stable", "waited_s", "why"),
    [
        ({"ebbtide-1": "CompleteCommit", "other": "Ongoing"}, 9, 0, None),
        ({"ebbtide-1": "CompleteAbort"}, 5, 5.0, None),
        ({"ebbtide-1": "PrepareAbort"}, 5, 35.0, "ebbtide-1 is PrepareAbort"),
        ({}, 5, 35.0, "ebbtide-1"),
        ({"ebbtide-1": "Ongoing"}, 9, 0, "ebbtide-1 is Ongoing"),
    ],
    ids=["ended", "ended, with an LSO that stands still", "never ends", "an id that nobody knows", "without records"],
)
def test_a_transaction_is_waited_for_as_long_as_its_records_may_still_end(
    await_end: AwaitEnd, states: dict[str, str], last_stable: int, waited_s: float, why: str | None
) -> None:
    found = await_end(Broker(states, last_stable=last_stable))
    assert (found.states, found.waited_s) == ({"ebbtide-1": states.get("ebbtide-1")}, waited_s)
    assert (found.why_open() is None) == (why is None)
    assert (why or "") in (found.why_open() or "")


def test_an_open_transaction_is_waited_for_until_its_coordinator_aborts_it(await_end: AwaitEnd, clock: Clock) -> None:
    broker = Broker({"ebbtide-1": "Ongoing"}, last_stable=5)

    def abort() -> None:
        broker.states, broker.last_stable = {"ebbtide-1": "CompleteAbort"}, 9

    clock.at[22.0] = abort
    found = await_end(broker)
    assert (found.why_open(), found.waited_s) == (None, 22.0)


def test_an_lso_that_moved_must_stand_still_anew(await_end: AwaitEnd, clock: Clock) -> None:
    broker = Broker({"ebbtide-1": "CompleteAbort"}, last_stable=5)
    clock.at[4.0] = lambda: setattr(broker, "last_stable", 7)
    found = await_end(broker)
    assert (found.waited_s, found.still) == (9.0, {"t-0": 7})


def test_a_transaction_that_ends_just_before_the_deadline_has_not_stood_still(
    await_end: AwaitEnd, clock: Clock
) -> None:
    broker = Broker({"ebbtide-1": "Ongoing"}, last_stable=5)
    clock.at[33.0] = lambda: setattr(broker, "states", {"ebbtide-1": "CompleteAbort"})
    found = await_end(broker)
    assert (found.why_open(), found.waited_s, found.still) == (None, 35.0, {})


def test_of_two_coordinators_the_one_that_has_it_open_counts(await_end: AwaitEnd) -> None:
    stale, newest = Broker({"ebbtide-1": "CompleteAbort"}), Broker({"ebbtide-1": "Ongoing"}, leads=False)
    for brokers in ((stale, newest), (newest, stale)):
        assert await_end(*brokers).states == {"ebbtide-1": "Ongoing"}


def test_a_broker_that_does_not_answer_leaves_it_open(await_end: AwaitEnd) -> None:
    found = await_end(Broker({"ebbtide-1": "Empty"}), Broker(None, leads=False))
    assert found.silent == ("b1:1",)
    assert "b1:1 did not say" in (found.why_open() or "")


ENDPOINTS = Endpoints(status="", stop="")
BROKERS = {1: "host-1:9092", 2: "host-2:9092"}
REPLICAS = {"t-0": (1, 2), "other-0": (1,)}
ENDS = {"t-0": FinalOffsets(log_start=0, high_watermark=9)}


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    """What each address answers in turn, a HW or an error; the last one again and again."""
    found: dict[str, list[Any]] = {}

    def answer(connection: SimpleNamespace, at: TopicPartition, offset: int) -> LogPart:
        assert (at, offset) == (TopicPartition("t", 0), 9)
        said = found[connection.address]
        one = said.pop(0) if len(said) > 1 else said[0]
        if isinstance(one, Exception):
            raise one
        return LogPart(batches=b"", high_watermark=one, log_start=0)

    monkeypatch.setattr(replica_high_watermarks, "read_replica", answer)
    monkeypatch.setattr(replica_high_watermarks, "ASKING_S", 0.3)
    return found


def test_a_follower_is_asked_until_it_has_the_final_hw(
    answers: dict[str, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_high_watermarks, "ASKING_S", 60)
    answers.update({"host-1:9092": [9], "host-2:9092": [WireError("reset"), Refused(6), 8, 9]})
    assert ask_high_watermarks(ENDPOINTS, BROKERS, REPLICAS, ENDS) == AnsweredHighWatermarks(
        reached={1: {"t-0": 9}, 2: {"t-0": 9}}
    )


@pytest.mark.parametrize("last", [8, 10, Refused(56), WireError("refused")])
def test_a_replica_with_another_hw_has_none_in_the_record(answers: dict[str, list[Any]], last: object) -> None:
    answers.update({"host-1:9092": [9], "host-2:9092": [last]})
    found = ask_high_watermarks(ENDPOINTS, BROKERS, REPLICAS, ENDS)
    assert found.reached == {1: {"t-0": 9}}
    assert "t-0 on broker 2" in (found.why_not_all or "")
    assert str(last) in (found.why_not_all or "")


def test_without_replicas_to_ask_nothing_is_waited_for() -> None:
    assert ask_high_watermarks(ENDPOINTS, {}, {}, ENDS) == AnsweredHighWatermarks()


def test_a_stop_ends_the_questions(answers: dict[str, list[Any]]) -> None:
    answers.update({"host-1:9092": [8], "host-2:9092": [8]})
    found = ask_high_watermarks(ENDPOINTS, BROKERS, REPLICAS, ENDS, lambda: True)
    assert found == AnsweredHighWatermarks()


def test_the_replicas_that_are_behind_are_named_up_to_a_limit(answers: dict[str, list[Any]]) -> None:
    answers.update({address: [8] for address in BROKERS.values()})
    many = {**BROKERS, **dict.fromkeys(range(3, 9), "host-1:9092")}
    found = ask_high_watermarks(ENDPOINTS, many, {"t-0": tuple(many)}, ENDS)
    assert (found.why_not_all or "").count("has the HW 8, not 9") == 5
    assert "and 3 more" in (found.why_not_all or "")
