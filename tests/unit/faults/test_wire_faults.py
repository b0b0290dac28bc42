"""Wire faults on a stand-in for the proxies: what each proves, and what a hold that held nothing does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from plain_steps import step_of

from cluster.runtime.base import NodeInfo
from cluster.wire import tap
from cluster.wire.messages import Action, Arm, Command, Direction, DivergingEpoch, Rule, What, WireEvent
from ebbtide.record.files import RecordFolder
from ebbtide.scenario.api_keys import API_KEYS, API_NAMES
from ebbtide.scenario.words import CLIENTS
from ebbtide.waiting import WaitExpired
from faults import wire
from faults.base import Effect
from faults.wire import ArmedRule, WireFaults, WireRule, nodes_to_intercept

ALTER_PARTITION = 56


class FakeWire:
    """Proxies that say yes to everything; `todo` is what they will tell next. `deaf`: they say nothing."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, Command]] = []
        self.todo: list[tuple[int, WireEvent]] = []
        self.passed = {1: 5}
        self.deaf = False

    def send(self, node_id: int, command: Command) -> None:
        self.sent.append((node_id, command))
        armed = isinstance(command, Arm)
        number = command.rule.number if isinstance(command, Arm) else command.number
        if not self.deaf:
            what = WireEvent(event="armed" if armed else "released", at_ns=1, rule=number, passed=dict(self.passed))
            self.todo.append((node_id, what))

    def poll(self) -> list[tuple[int, WireEvent]]:
        events, self.todo = self.todo, []
        return events


class FakeRuntime:
    """Two brokers and a controller."""

    def __init__(self) -> None:
        self.nodes = {
            id: NodeInfo(
                id=id, role="controller" if id == 100 else "broker", name=f"node-{id}", address=f"10.99.0.{id}"
            )
            for id in (1, 2, 100)
        }
        self.wire = FakeWire()


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> FakeRuntime:
    monkeypatch.setattr(wire, "ANSWER_TIMEOUT_S", 0.05)
    monkeypatch.setattr(wire, "PROXY_TIMEOUT_S", 0.05)
    return FakeRuntime()


@pytest.fixture
def faults(runtime: FakeRuntime, tmp_path: Path) -> WireFaults:
    return WireFaults(runtime, RecordFolder(tmp_path))  # type: ignore[arg-type]


def _hold(faults: WireFaults, direction: Direction = "request") -> ArmedRule:
    return faults.arm(
        WireRule(action="hold", nodes=(1,), api="AlterPartition", direction=direction, peers=(100,), times=None)
    )


def _tell(faults: WireFaults, runtime: FakeRuntime, *events: str, rule: int = 1, **more: Any) -> None:
    runtime.wire.todo += [
        (1, WireEvent(event=event, at_ns=7, rule=rule, api=ALTER_PARTITION, peer="10.99.0.100", size_bytes=99, **more))  # type: ignore[arg-type]
        for event in events
    ]
    faults.poll()


def _proven(effect: Effect) -> bool:
    assert (effect.effect_ns is None) == (effect.why is not None)
    assert effect.proof["probe"] == ("failed" if effect.effect_ns is None else "ok")
    return effect.effect_ns is not None


def test_a_rule_names_addresses_and_keys(faults: WireFaults, runtime: FakeRuntime) -> None:
    _hold(faults)
    ((node, command),) = runtime.wire.sent
    assert isinstance(command, Arm)
    assert (node, command.rule.api, command.rule.peers) == (1, ALTER_PARTITION, ("10.99.0.100",))


def test_a_hold_is_proven_once_a_request_is_held(faults: WireFaults, runtime: FakeRuntime) -> None:
    hold = _hold(faults)
    assert not _proven(hold.effect())
    assert faults.held_count([1], "AlterPartition") == 0
    _tell(faults, runtime, "held", seen={18: 1, ALTER_PARTITION: 2})
    assert _proven(hold.effect())
    assert hold.effect().effect_ns == 7
    assert hold.effect().proof["first"]["connection_saw"] == {"ApiVersions": 1, "AlterPartition": 2}
    assert faults.held_count([1], "AlterPartition") == 1
    assert faults.held_count([2], "AlterPartition") == 0


def test_a_held_answer_that_makes_a_follower_truncate_says_so_in_the_proof_and_the_record(
    faults: WireFaults, runtime: FakeRuntime, tmp_path: Path
) -> None:
    hold = _hold(faults, "response")
    told = DivergingEpoch(topic="an-id", partition=0, epoch=4, end_offset=50, fetch_offset=70)
    _tell(faults, runtime, "held", diverging=(told,))
    shown = {"topic": "an-id", "partition": 0, "epoch": 4, "end_offset": 50, "fetch_offset": 70}
    assert list(hold.effect().proof["first"]["diverging"]) == [shown]
    assert json.loads((tmp_path / "wire.jsonl").read_text().splitlines()[-1])["diverging"] == [shown]


def test_a_release_is_proven_by_the_bytes_that_went_on_and_tells_the_answers(
    faults: WireFaults, runtime: FakeRuntime
) -> None:
    hold = _hold(faults)
    _tell(faults, runtime, "held")
    runtime.wire.todo += [(1, WireEvent(event="forwarded", at_ns=8, rule=1, api=ALTER_PARTITION, size_bytes=99))]
    runtime.wire.todo += [(1, WireEvent(event="answered", at_ns=9, rule=1, api=ALTER_PARTITION))]
    effect = faults.release([hold])
    assert _proven(effect)
    assert (effect.proof["forwarded_bytes"], effect.proof["answered"]) == (99, 1)
    assert faults.held_count([1], "AlterPartition") == 0
    assert not faults.rules_in_force()


def test_a_release_does_not_wait_for_ever_for_an_answer(faults: WireFaults, runtime: FakeRuntime) -> None:
    hold = _hold(faults)
    _tell(faults, runtime, "held", "forwarded")
    effect = faults.release([hold])
    assert _proven(effect)
    assert effect.proof["answered"] == 0


def test_a_release_of_what_its_sender_gave_up_is_not_proven(faults: WireFaults, runtime: FakeRuntime) -> None:
    hold = _hold(faults)
    _tell(faults, runtime, "held")
    _tell(faults, runtime, "abandoned", waited_s=30.25)
    assert faults.held_count([1], "AlterPartition") == 0
    effect = faults.release([hold])
    assert not _proven(effect)
    assert "closed after 30.2 s" in (effect.why or "")


def test_a_release_where_no_rule_is_in_force_is_not_proven(faults: WireFaults) -> None:
    assert not _proven(faults.release([]))


def test_a_delay_is_proven_by_what_was_delayed_for_so_long(faults: WireFaults, runtime: FakeRuntime) -> None:
    delay = faults.arm(WireRule(action="delay", nodes=(1,), api="AlterPartition", delay_s=0.5))
    assert str(delay.effect().why).endswith("came by")
    _tell(faults, runtime, "held")
    _tell(faults, runtime, "forwarded", waited_s=0.2)
    assert not _proven(delay.effect())
    assert str(delay.effect().why).endswith("waited for the whole 0.5 s: the rule or the connection ended first")
    _tell(faults, runtime, "forwarded", waited_s=0.501)
    assert _proven(delay.effect())
    assert delay.effect().proof["waited_ms_min"] == 501.0


def test_a_drop_is_proven_by_a_connection_that_was_closed(faults: WireFaults, runtime: FakeRuntime) -> None:
    drop = faults.arm(WireRule(action="drop", nodes=(1,), api="AlterPartition"))
    assert not _proven(drop.effect())
    _tell(faults, runtime, "dropped")
    assert _proven(drop.effect())
    assert _proven(faults.release([drop]))


def test_a_rule_of_one_node_is_not_ended_with_those_of_another(faults: WireFaults) -> None:
    hold = _hold(faults)
    assert faults.rules_in_force([2]) == []
    assert faults.rules_in_force([1, 2]) == [hold]


def test_a_proxy_that_does_not_answer_is_waited_for_only_so_long(faults: WireFaults, runtime: FakeRuntime) -> None:
    runtime.wire.deaf = True
    with pytest.raises(WaitExpired, match="the wire proxies to say armed"):
        _hold(faults)


def test_the_record_keeps_every_event(faults: WireFaults, runtime: FakeRuntime, tmp_path: Path) -> None:
    _hold(faults)
    _tell(faults, runtime, "held", seen={ALTER_PARTITION: 1})
    rows = [json.loads(line) for line in (tmp_path / "wire.jsonl").read_text().splitlines()]
    assert [row["event"] for row in rows] == ["armed", "held"]
    assert rows[0]["passed"] == {"Fetch": 5}
    assert rows[1] == {
        "at_ns": 7, "node": 1, "event": "held", "rule": 1, "peer": 100, "api": "AlterPartition", "size_bytes": 99,
        "seen": {"AlterPartition": 1},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("leader(t-0)", {1, 2}),
        ("brokers", {1, 2}),
        ("broker(2)", {2}),
        ("controller", {100}),
        ("clients", {CLIENTS}),
        ("step(first)", {2}),
    ],
)
def test_a_proxy_is_put_before_every_node_that_a_role_may_stand_for(
    runtime: FakeRuntime, target: str, expected: set[int]
) -> None:
    steps = [
        step_of("kill", name="first", target="broker(2)"),
        step_of("hold-request", target=target, api="Fetch"),
        step_of("release"),
    ]
    assert nodes_to_intercept(steps, runtime.nodes).keys() == expected


def test_a_schedule_without_wire_steps_needs_no_proxy(runtime: FakeRuntime) -> None:
    assert nodes_to_intercept([step_of("kill", target="leader(t-0)"), step_of("heal")], runtime.nodes) == {}


def test_every_api_key_has_a_name_that_leads_back() -> None:
    assert {API_KEYS[name] for name in API_NAMES.values()} == set(API_KEYS.values()) == set(range(95))


@pytest.mark.parametrize(
    ("action", "event"), [("hold", "held"), ("delay", "held"), ("drop", "dropped"), ("duplicate", "duplicated")]
)
def test_what_a_rule_has_used_of_its_times_its_next_proxy_does_not_get(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: Action, event: What
) -> None:
    armed: list[Rule] = []

    class OneTap:
        def __init__(self, *_: object) -> None:
            self.inode = len(armed)

        def redirect(self, ports: object) -> None: ...

        def close(self) -> None: ...

        def send(self, command: Arm) -> None:
            armed.append(command.rule)

        def poll(self) -> list[WireEvent]:
            return [WireEvent(event=event, at_ns=1, rule=1)]

    monkeypatch.setattr(tap, "Tap", OneTap)
    taps = tap.Taps(None, ports=(9092,), logs=tmp_path)  # type: ignore[arg-type]
    taps.intercept({1: "broker-1"})
    taps.open({1: tmp_path})
    taps.send(1, Arm(Rule(number=1, action=action, api=0, times=3)))
    taps.open({1: tmp_path})
    assert [rule.times for rule in armed] == [3, 2]


def test_a_duplicate_takes_effect_with_the_answer_to_the_copy_not_with_its_bytes(
    runtime: FakeRuntime, faults: WireFaults
) -> None:
    armed = faults.arm(WireRule(action="duplicate", nodes=(1,), api="Produce"))
    runtime.wire.todo.append((1, WireEvent(event="duplicated", at_ns=5, rule=armed.number, peer="10.99.0.2", api=0)))
    faults.poll()
    assert armed.effect().effect_ns is None
    runtime.wire.todo.append((1, WireEvent(event="discarded", at_ns=9, rule=armed.number, peer="10.99.0.2", api=0)))
    faults.poll()
    assert (armed.effect().effect_ns, armed.effect().proof["answered_twice"]) == (9, 1)
    assert faults.release([armed]).effect_ns is not None


@pytest.mark.parametrize(
    ("late", "events", "outlived", "why"),
    [
        (True, ("held", "outlived", "forwarded"), 1, None),
        (True, ("held", "forwarded"), None, "no held request outlived its sender's connection: none was late"),
        (False, ("held", "forwarded"), None, None),
    ],
)
def test_a_release_of_late_requests_is_proven_by_those_that_outlived_their_senders(
    faults: WireFaults, runtime: FakeRuntime, late: bool, events: tuple[str, ...], outlived: int | None, why: str | None
) -> None:
    armed = faults.arm(WireRule(action="hold", nodes=(1,), api="AlterPartition", late=late))
    ((_, command),) = runtime.wire.sent
    assert isinstance(command, Arm)
    assert command.rule.late is late
    _tell(faults, runtime, *events)
    assert faults.held_count([1], "AlterPartition") == 0
    effect = faults.release([armed])
    assert (effect.proof.get("outlived"), effect.why) == (outlived, why)
