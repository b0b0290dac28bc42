"""Roles and triggers against a metadata log on disk, as a controller writes it."""

from __future__ import annotations

from pathlib import Path

import evidence_builders as build
import pytest
from plain_steps import trigger_of

from ebbtide.kraft.image import describe
from ebbtide.logs.segments import LogEnd
from ebbtide.scenario.words import CLIENTS, Role
from harness.runner.triggers import Observation, TriggerWatch
from harness.runner.view import ClusterView, RoleUnresolved


class Counters:
    """Clients that have had 10 records acked and seen the HW at 7."""

    def acked(self) -> int:
        return 10

    def high_watermark(self, topic: str, partition: int) -> int | None:
        return 7 if (topic, partition) == ("t", 0) else None


class Log:
    """A controller's metadata log that grows by a batch at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._batches: list[bytes] = []
        self._offset = 0

    def append(self, *messages: bytes) -> None:
        self._batches.append(build.metadata_batch(self._offset, *messages))
        self._offset += len(messages)
        build.write_log(self.folder, *self._batches)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = Log(tmp_path / "log")
    log.append(build.topic("t", "T"), build.partition("T", 0, (2, 1, 3), 2))
    return log


@pytest.fixture
def view(log: Log, tmp_path: Path) -> ClusterView:
    view = ClusterView({100: log.folder}, {100: tmp_path / "mirror"}, (1, 2, 3))
    view.poll()
    return view


def nodes(view: ClusterView, role: str) -> tuple[int, ...]:
    return view.resolve(Role(role))


def _none_held(nodes: tuple[int, ...], api: str) -> int:
    return 0


def has_fired(view: ClusterView, **asked: object) -> bool:
    return TriggerWatch(trigger_of(**asked), view, Counters(), _none_held).look().fired  # type: ignore[arg-type]


def test_roles_follow_the_newest_state(view: ClusterView, log: Log) -> None:
    assert (nodes(view, "leader(t-0)"), nodes(view, "followers(t-0)")) == ((2,), (1, 3))
    log.append(build.change("T", 0, isr=(2,), elr=(3,)))
    view.poll()
    assert (nodes(view, "isr(t-0)"), nodes(view, "elr(t-0)"), nodes(view, "replicas(t-0)")) == ((2,), (3,), (1, 2, 3))


def test_the_last_known_leader_is_known_when_there_is_none(view: ClusterView, log: Log) -> None:
    log.append(build.change("T", 0, leader=-1))
    view.poll()
    assert nodes(view, "last-known-leader(t-0)") == (2,)
    with pytest.raises(RoleUnresolved, match="leader none"):
        nodes(view, "leader(t-0)")


def test_fixed_roles_and_named_steps(view: ClusterView) -> None:
    assert (nodes(view, "brokers"), nodes(view, "controllers"), nodes(view, "clients")) == (
        (1, 2, 3),
        (100,),
        (CLIENTS,),
    )
    assert nodes(view, "broker(3)") == (3,)
    with pytest.raises(RoleUnresolved):
        nodes(view, "step(cut)")
    view.remember("cut", (3,))
    assert nodes(view, "step(cut)") == (3,)


def test_the_active_controller_is_the_one_that_the_log_names(view: ClusterView, log: Log) -> None:
    with pytest.raises(RoleUnresolved):
        nodes(view, "controller")
    build.write_log(log.folder, build.leader_change(0, 100))
    view.poll()
    assert nodes(view, "controller") == (100,)


def test_a_poll_tells_which_partitions_changed_once(view: ClusterView, log: Log) -> None:
    assert view.poll() == []
    log.append(build.change("T", 0, isr=(2, 1)))
    (row,) = view.poll()
    assert describe(row) == "t-0 leader 2 epoch 0 ISR [1, 2]"


def test_partition_triggers_fire_on_the_state_they_ask_for(view: ClusterView, log: Log) -> None:
    assert not has_fired(view, isr={"partition": "t-0", "size": 1})
    assert has_fired(view, isr={"partition": "t-0", "at_least": 3})
    assert has_fired(view, leader_is={"partition": "t-0", "broker": "broker(2)"})
    assert not has_fired(view, epoch_above={"partition": "t-0", "epoch": 0})
    log.append(build.change("T", 0, leader=-1, isr=(), elr=(1,)))
    view.poll()
    assert has_fired(view, leader_is={"partition": "t-0", "broker": "none"})
    assert has_fired(view, epoch_above={"partition": "t-0", "epoch": 0})
    assert has_fired(view, elr_contains={"partition": "t-0", "broker": "broker(1)"})
    assert not has_fired(view, elr_contains={"partition": "t-0", "broker": "broker(3)"})


def test_client_triggers_ask_the_counters(view: ClusterView) -> None:
    assert has_fired(view, acked=10)
    assert not has_fired(view, acked=11)
    assert has_fired(view, hw_at_least={"partition": "t-0", "offset": 7})
    assert not has_fired(view, hw_at_least={"partition": "t-0", "offset": 8})


def test_a_broker_trigger_asks_for_the_newest_registration_event(view: ClusterView, log: Log) -> None:
    trigger = {"broker": "broker(1)", "state": "unfenced"}
    assert not has_fired(view, broker_is=trigger)
    log.append(build.register(1, 5, "I"))
    log.append(build.registration_change(1, 5, fenced=-1))
    view.poll()
    assert has_fired(view, broker_is=trigger)
    log.append(build.registration_change(1, 5, stopping=1))
    view.poll()
    assert TriggerWatch(trigger_of(broker_is=trigger), view, Counters(), _none_held).look() == Observation(
        fired=False, what="broker 1 shutting down"
    )


def test_a_broker_trigger_on_several_brokers_waits_for_the_last_of_them(view: ClusterView, log: Log) -> None:
    trigger = {"broker": "followers(t-0)", "state": "registered"}
    log.append(build.register(1, 5, "I"))
    view.poll()
    seen = TriggerWatch(trigger_of(broker_is=trigger), view, Counters(), _none_held).look()
    assert (seen.fired, seen.what) == (False, "broker 1 registered; broker 3 not registered yet")
    log.append(build.register(3, 6, "I"))
    view.poll()
    assert has_fired(view, broker_is=trigger)


def test_the_longest_log_has_the_highest_epoch_and_then_the_highest_end(log: Log, tmp_path: Path) -> None:
    ends = {1: LogEnd(0, 145), 2: LogEnd(1, 20), 3: LogEnd(1, 20)}
    view = ClusterView({100: log.folder}, {100: tmp_path / "m"}, (1, 2, 3), log_end=lambda broker, _at: ends[broker])
    view.poll()
    assert nodes(view, "longest-log(t-0)") == (2,)
    ends[3] = LogEnd(1, 21)
    assert nodes(view, "longest-log(t-0)") == (3,)


def test_an_elr_member_that_returns_from_an_unclean_shutdown_is_in_the_last_known_elr(
    view: ClusterView, log: Log
) -> None:
    log.append(build.config(2, "t", "min.insync.replicas", "2"), build.change("T", 0, isr=(2,)))
    log.append(build.register(3, 23, "J"))
    view.poll()
    assert nodes(view, "last-known-elr(t-0)") == (3,)


def test_a_partition_that_does_not_exist_yet_fires_nothing(view: ClusterView) -> None:
    seen = TriggerWatch(trigger_of(isr={"partition": "u-0", "size": 1}), view, Counters(), _none_held).look()
    assert (seen.fired, seen.what) == (False, "u-0 does not exist yet")


def test_without_volumes_no_log_is_the_longest(view: ClusterView) -> None:
    with pytest.raises(RoleUnresolved, match="longest-log"):
        nodes(view, "longest-log(t-0)")
