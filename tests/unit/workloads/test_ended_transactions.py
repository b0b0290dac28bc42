"""The wait for the end of transactions: how long it takes, and what it says of the coordinators."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cluster.kafka_api.connection import LATEST, NONE, OffsetAnswer, WireError
from workloads import ended_transactions
from workloads.config import Endpoints, FinalReadConfig
from workloads.ended_transactions import await_ended_transactions
from workloads.process import Stop


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


def await_end(monkeypatch: pytest.MonkeyPatch, folder: Path, *brokers: Broker) -> Any:
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
    config = FinalReadConfig(
        endpoints=Endpoints(status="", stop=str(folder / "stop")),
        journal="",
        run_id="r",
        bootstrap=tuple(by_address),
        topics={"t": 1},
        result="",
        transactional_ids=("ebbtide-1",),
        transactions_s=35.0,
    )
    return await_ended_transactions(config, Stop(config.endpoints.stop))


def test_transactions_that_have_ended_cost_no_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, clock: Clock
) -> None:
    found = await_end(monkeypatch, tmp_path, Broker({"ebbtide-1": "CompleteCommit", "other": "Ongoing"}))
    assert (found.states, found.why_open(), clock.now_s) == ({"ebbtide-1": "CompleteCommit"}, None, 0)


def test_an_open_transaction_is_waited_for_until_its_coordinator_aborts_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, clock: Clock
) -> None:
    broker = Broker({"ebbtide-1": "Ongoing"}, last_stable=5)

    def abort() -> None:
        broker.states, broker.last_stable = {"ebbtide-1": "CompleteAbort"}, 9

    clock.at[22.0] = abort
    found = await_end(monkeypatch, tmp_path, broker)
    assert (found.why_open(), found.waited_s) == (None, 22.0)


def test_an_lso_that_stands_still_after_the_end_is_not_waited_for_any_longer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, clock: Clock
) -> None:
    found = await_end(monkeypatch, tmp_path, Broker({"ebbtide-1": "CompleteAbort"}, last_stable=5))
    assert (found.why_open(), found.waited_s, found.still) == (None, 5.0, {"t-0": 5})


def test_an_lso_that_moved_must_stand_still_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, clock: Clock) -> None:
    broker = Broker({"ebbtide-1": "CompleteAbort"}, last_stable=5)
    clock.at[4.0] = lambda: setattr(broker, "last_stable", 7)
    found = await_end(monkeypatch, tmp_path, broker)
    assert (found.waited_s, found.still) == (9.0, {"t-0": 7})


def test_a_transaction_that_ends_just_before_the_deadline_has_not_stood_still(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, clock: Clock
) -> None:
    broker = Broker({"ebbtide-1": "Ongoing"}, last_stable=5)
    clock.at[33.0] = lambda: setattr(broker, "states", {"ebbtide-1": "CompleteAbort"})
    found = await_end(monkeypatch, tmp_path, broker)
    assert (found.why_open(), found.waited_s, found.still) == (None, 35.0, {})


def test_a_transaction_that_never_ends_is_said_to_be_open(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, clock: Clock
) -> None:
    found = await_end(monkeypatch, tmp_path, Broker({"ebbtide-1": "PrepareAbort"}, last_stable=5))
    assert found.waited_s == 35.0
    assert "ebbtide-1 is PrepareAbort" in (found.why_open() or "")


def test_of_two_coordinators_the_one_that_has_it_open_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, clock: Clock
) -> None:
    stale, newest = Broker({"ebbtide-1": "CompleteAbort"}), Broker({"ebbtide-1": "Ongoing"}, leads=False)
    for brokers in ((stale, newest), (newest, stale)):
        assert await_end(monkeypatch, tmp_path, *brokers).states == {"ebbtide-1": "Ongoing"}


def test_a_broker_that_does_not_answer_leaves_it_open(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, clock: Clock
) -> None:
    found = await_end(monkeypatch, tmp_path, Broker({"ebbtide-1": "Empty"}), Broker(None, leads=False))
    assert found.silent == ("b1:1",)
    assert "b1:1 did not say" in (found.why_open() or "")


def test_an_id_that_nobody_knows_is_open(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, clock: Clock) -> None:
    found = await_end(monkeypatch, tmp_path, Broker({}, last_stable=5))
    assert (found.states, found.waited_s) == ({"ebbtide-1": None}, 35.0)
    assert found.why_open() is not None


def test_what_is_open_without_records_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, clock: Clock
) -> None:
    assert await_end(monkeypatch, tmp_path, Broker({"ebbtide-1": "Ongoing"})).waited_s == 0
