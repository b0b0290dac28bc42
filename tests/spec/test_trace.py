"""Real metadata logs against the model: each transition is explained, and a log changed by hand is caught where it was.

The logs under timelines/ are of random fault schedules on real clusters: kills, stops, pauses, power losses, cuts,
and in `reassignments-*` reassignments and config changes besides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from records import as_record

from analysis.judge.trace.check import check_timeline
from analysis.judge.trace.results import TimelineTrace, UnexplainedTransition
from analysis.record.elections import all_elections
from analysis.record.protocol import UNCLEAN_ELECTION, RulesInForce
from analysis.record.requests import Request
from analysis.record.timeline import Timeline, load_timeline
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import read_manifest
from ebbtide.record.rows import BrokerEvent, ConfigChange, PartitionState
from ebbtide.releases.known_releases import ELR_VERSION

TIMELINES = Path(__file__).with_name("timelines")
NAMES = sorted(path.name for path in TIMELINES.iterdir())


def load(name: str) -> Timeline:
    return load_timeline(as_record(TIMELINES / name))


def check(
    timeline: Timeline,
    name: str,
    *,
    kafka: str | None = None,
    statics: Mapping[str, str] | None = {},
    asked: tuple[Request, ...] | None = (),
    touched: frozenset[int] | None = frozenset(),
    in_final_read: frozenset[str] = frozenset(),
) -> TimelineTrace:
    manifest = read_manifest(RecordFolder(TIMELINES / name))
    if kafka is not None:
        manifest = msgspec.structs.replace(manifest, kafka=kafka)
    if name.startswith("reassignments"):
        asked = (Request(kind="reassign"),)
    rules = RulesInForce(manifest, timeline)
    return check_timeline(
        timeline, rules, statics=statics, asked=asked, touched_disks=touched, in_final_read=in_final_read
    )


def unexplained(trace: TimelineTrace) -> list[tuple[int, str]]:
    return [(one.metadata_offset, one.why) for one in trace.unexplained]


@pytest.mark.parametrize("name", NAMES)
def test_every_transition_of_a_real_run_is_explained(name: str) -> None:
    timeline = load(name)
    trace = check(timeline, name)
    assert trace.refused is None
    assert unexplained(trace) == []
    assert len(trace.explained) == sum(len(states) for states in timeline.partitions.values())
    assert all(one.by for one in trace.explained)


def test_the_real_runs_show_what_the_protocol_does_under_faults() -> None:
    seen: set[str] = set()
    for name in NAMES:
        seen |= check(load(name), name).actions.keys()
    assert seen >= {
        "create",
        "fence",
        "unfence",
        "controlled-shutdown",
        "register-unclean",
        "isr-expand",
        "isr-shrink",
        "clear-elr",
        "reassign",
        "reassignment-completed",
    }


def test_each_transition_names_who_made_it() -> None:
    trace = check(load("churn-4.3.1"), "churn-4.3.1")
    made = {(one.after.metadata_offset, one.after.topic): (one.action, one.by) for one in trace.explained}
    assert made[58, "d"] == ("fence", "broker 1, fenced")
    assert made[88, "d"] == ("register-unclean", "broker 2, registered after an unclean shutdown")
    assert made[92, "u"] == ("unfence", "broker 2, unfenced")
    assert made[157, "t"] == ("isr-expand", "leader 3, AlterPartition to [2, 3]")


def test_a_release_that_the_model_does_not_know_is_not_judged() -> None:
    trace = check(load("churn-4.3.1"), "churn-4.3.1", kafka="3.2.0")
    assert trace.refused is not None
    assert not trace.unexplained


def test_the_fenced_last_known_leader_of_kafka_4_0_is_no_transition_of_4_1() -> None:
    """KAFKA-19522: 4.0 elects it in the very record of its registration after an unclean shutdown."""
    as_4_1 = check(load("churn-4.0.2-elr"), "churn-4.0.2-elr", kafka="4.1.2")
    first = as_4_1.unexplained[0]
    assert (first.metadata_offset, first.after.topic, first.after.leader) == (151, "d", 3)
    assert first.nearest[0].instead["leader"] == -1


def test_the_rules_follow_the_feature_level_of_the_moment() -> None:
    """The log of a run without ELR, with a record that switches the ELR on in its middle: from there on it is wrong."""
    timeline = load("churn-4.0.2")
    switched = 60
    level = ConfigChange(metadata_offset=switched, at_ns=0, resource=f"feature:{ELR_VERSION}", name="level", value="1")
    configs = tuple(sorted((*timeline.configs, level), key=lambda one: one.metadata_offset))
    trace = check(msgspec.structs.replace(timeline, configs=configs), "churn-4.0.2")
    assert trace.unexplained
    assert all(one.metadata_offset > switched for one in trace.unexplained)


@pytest.mark.parametrize(("statics", "undecided"), [(None, {True}), ({}, {False}), ({UNCLEAN_ELECTION: "true"}, set())])
def test_an_unclean_election_hangs_on_a_property_that_may_not_be_known(
    statics: Mapping[str, str] | None, undecided: set[bool]
) -> None:
    timeline = load("churn-4.3.1")
    configs = tuple(one for one in timeline.configs if one.name != UNCLEAN_ELECTION)
    unsaid = msgspec.structs.replace(timeline, configs=configs)
    found = check(unsaid, "churn-4.3.1", statics=statics).unexplained
    assert {one.undecided for one in found if one.after.topic == "u" and one.after.leader == 2} == undecided


def test_a_log_with_gaps_and_a_replaced_disk_are_undecided() -> None:
    timeline = edit(load("churn-4.3.1"), 92, "u", 0, leader=1, isr=(1,))
    gapped = check(msgspec.structs.replace(timeline, gaps=True), "churn-4.3.1")
    assert {one.undecided for one in gapped.unexplained} == {True}
    for touched in (None, frozenset({1})):
        on_a_new_disk = check(timeline, "churn-4.3.1", touched=touched)
        assert {one.undecided for one in on_a_new_disk.unexplained} == {True}


def test_a_record_that_is_missing_where_the_log_has_gaps_is_undecided() -> None:
    timeline = drop(load("churn-4.3.1"), 145, "d", 1)
    gapped = check(msgspec.structs.replace(timeline, gaps=True), "churn-4.3.1").unexplained
    assert [(one.metadata_offset, one.undecided) for one in gapped] == [(156, True)]


FENCED = "a fence leaves the broker in the ISR"
UNFENCED = "an unfenced ELR member does not lead"


@pytest.mark.parametrize(("damage", "undecided"), [(FENCED, False), (UNFENCED, True)])
@pytest.mark.parametrize("touched", [None, frozenset({1, 2, 3})], ids=["no steps", "each disk was replaced"])
def test_a_replaced_disk_excuses_no_change_that_comes_whatever_the_directories_are(
    damage: str, undecided: bool, touched: frozenset[int] | None
) -> None:
    """A fenced broker leaves the ISR in any case. An unfenced one leads only if its directory is online."""
    name, offset, change = DAMAGES[damage]
    found = check(change(load(name)), name, touched=touched).unexplained
    assert {one.undecided for one in found if one.metadata_offset == offset} == {undecided}
    assert ("unless evidence" in first_of_offset(found, offset).why) == undecided


def test_a_fence_that_nothing_follows_is_checked_if_the_partition_was_there_at_the_end() -> None:
    name, offset, _ = DAMAGES[FENCED]
    timeline = _with(load(name), "d", 0, lambda states: tuple(one for one in states if one.metadata_offset < 52))
    assert not unexplained(check(timeline, name)), "the topic may have been deleted"
    at_the_end = check(timeline, name, in_final_read=frozenset({"d-0"})).unexplained
    assert not first_of_offset(at_the_end, offset).undecided


def first_of_offset(found: Sequence[UnexplainedTransition], offset: int) -> UnexplainedTransition:
    return next(one for one in found if one.metadata_offset == offset)


def edit(timeline: Timeline, offset: int, topic: str, partition: int, **changes: object) -> Timeline:
    """The timeline with fields of one state changed; what follows is left as it was."""
    return _with(
        timeline,
        topic,
        partition,
        lambda states: tuple(
            msgspec.structs.replace(one, **changes) if one.metadata_offset == offset else one for one in states
        ),
    )


def shift(timeline: Timeline, offset: int, topic: str, partition: int, **by: int) -> Timeline:
    """The timeline with numbers raised in one state of the partition and all that follow."""
    return _with(
        timeline,
        topic,
        partition,
        lambda states: tuple(
            msgspec.structs.replace(one, **{key: getattr(one, key) + more for key, more in by.items()})
            if one.metadata_offset >= offset
            else one
            for one in states
        ),
    )


def drop(timeline: Timeline, offset: int, topic: str, partition: int) -> Timeline:
    """The timeline without one state."""
    return _with(timeline, topic, partition, lambda states: tuple(s for s in states if s.metadata_offset != offset))


def insert(timeline: Timeline, event: BrokerEvent) -> Timeline:
    """The timeline with one broker event more."""
    events = sorted((*timeline.brokers, event), key=lambda one: one.metadata_offset)
    return msgspec.structs.replace(timeline, brokers=tuple(events))


def without_event(timeline: Timeline, offset: int) -> Timeline:
    """The timeline without the broker event at `offset`."""
    events = tuple(one for one in timeline.brokers if one.metadata_offset != offset)
    return msgspec.structs.replace(timeline, brokers=events)


def _with(
    timeline: Timeline,
    topic: str,
    partition: int,
    change: Callable[[tuple[PartitionState, ...]], tuple[PartitionState, ...]],
) -> Timeline:
    states = timeline.states(topic, partition)
    changed = change(states)
    assert changed != states, "the damage changes nothing"
    return msgspec.structs.replace(timeline, partitions={**timeline.partitions, (topic, partition): changed})


def registration(offset: int, broker: int) -> BrokerEvent:
    return BrokerEvent(metadata_offset=offset, at_ns=0, broker=broker, broker_epoch=offset, event="registered")


Damage = Callable[[Timeline], Timeline]

DAMAGES: dict[str, tuple[str, int, Damage]] = {
    "a broker that is fenced joins the ISR": (
        "churn-4.3.1",
        56,
        lambda one: edit(one, 56, "t", 2, isr=(3, 1), elr=(2,)),
    ),
    "a follower that is down joins the ISR with the one that caught up": (
        "churn-3.4.1",
        123,
        lambda one: without_event(edit(one, 123, "t", 0, isr=(3, 2, 1)), 109),
    ),
    "a follower joins after it registered anew and before it is unfenced": (
        "churn-3.4.1",
        118,
        lambda one: insert(one, registration(115, 2)),
    ),
    "the ELR keeps a broker that registers after an unclean shutdown": (
        "churn-4.3.1",
        88,
        lambda one: edit(one, 88, "d", 1, elr=(1, 2)),
    ),
    "the leader epoch jumps by two": ("churn-3.9.1", 100, lambda one: shift(one, 100, "t", 0, leader_epoch=1)),
    "the leader changes without a leader epoch": (
        "churn-3.9.1",
        130,
        lambda one: shift(one, 130, "t", 0, leader_epoch=-1),
    ),
    "the partition epoch skips one": ("shrinks-4.3.1", 97, lambda one: shift(one, 97, "t", 0, partition_epoch=1)),
    "a leader from outside ISR and ELR is not RECOVERING": (
        "churn-4.3.1",
        92,
        lambda one: edit(one, 92, "u", 0, leader_recovery_state=0),
    ),
    "a leader from outside ISR and ELR where unclean elections are disabled": (
        "churn-4.3.1",
        135,
        lambda one: edit(one, 135, "t", 0, leader=2, isr=(2,), leader_recovery_state=1),
    ),
    "the ISR grows and RECOVERING stays": (
        "churn-4.3.1",
        161,
        lambda one: edit(one, 161, "u", 0, leader_recovery_state=1),
    ),
    "the ELR stays when the ISR reaches min ISR": ("shrinks-4.3.1", 101, lambda one: edit(one, 101, "t", 0, elr=(2,))),
    "the ELR misses who left the ISR below min ISR": ("shrinks-4.3.1", 97, lambda one: edit(one, 97, "t", 0, elr=())),
    "another than the leader is the last known one": (
        "churn-4.3.1",
        58,
        lambda one: edit(one, 58, "d", 1, last_known_elr=(2,)),
    ),
    "without ELR the ISR empties": ("churn-3.4.1", 53, lambda one: edit(one, 53, "t", 0, isr=())),
    "a leader that is not the first live ISR member": (
        "churn-3.9.1",
        44,
        lambda one: edit(one, 44, "t", 0, leader=2),
    ),
    "a fence leaves the broker in the ISR": (
        "shrinks-4.3.1",
        59,
        lambda one: shift(drop(one, 52, "d", 0), 52, "d", 0, partition_epoch=-1, leader_epoch=-1),
    ),
    "an unfenced ELR member does not lead": (
        "churn-4.3.1",
        131,
        lambda one: shift(drop(one, 135, "t", 0), 136, "t", 0, partition_epoch=-1),
    ),
    "a reassignment completes before the new replica is in the ISR": (
        "reassignments-4.3.1",
        117,
        lambda one: edit(
            one, 117, "d", 0, isr=(2,), replicas=(3, 2, 1), adding=(), removing=(), leader=2, leader_epoch=4
        ),
    ),
    "a partition begins with a fenced broker in its ISR": (
        "churn-4.3.1",
        25,
        lambda one: without_event(one, 20),
    ),
}


def first_of(trace: TimelineTrace, offset: int) -> UnexplainedTransition:
    first = trace.unexplained[0]
    assert first.metadata_offset == offset, unexplained(trace)
    return first


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_timeline_is_caught_at_the_record(damage: str) -> None:
    name, offset, change = DAMAGES[damage]
    first = first_of(check(change(load(name)), name), offset)
    assert not first.undecided


@pytest.mark.parametrize("name", NAMES)
def test_the_judge_calls_an_election_unclean_where_the_log_says_recovering(name: str) -> None:
    timeline = load(name)
    for one in all_elections(timeline):
        outside = one.road in ("unclean", "last-known-leader")
        began = one.after.recovering and not one.before.recovering
        assert outside == began or (outside and one.before.recovering), one


def test_the_timelines_hold_no_two_states_in_one_place() -> None:
    for name in NAMES:
        for states in load(name).partitions.values():
            assert all(one.metadata_offset < other.metadata_offset for one, other in pairwise(states))


def test_a_cluster_that_was_upgraded_is_checked_by_each_controllers_release_and_by_the_level_of_each_moment() -> None:
    timeline, name = load("upgraded-3.9.1-4.3.1"), "upgraded-3.9.1-4.3.1"
    registered = [one.metadata_version for one in timeline.brokers if one.event == "registered"]
    assert registered[:6] == [21, 21, 21, 30, 30, 30], "each broker on 3.9.1, then on 4.3.1"
    always_on = msgspec.structs.replace(
        timeline, configs=tuple(one for one in timeline.configs if one.resource != f"feature:{ELR_VERSION}")
    )
    assert check(always_on, name).refused is not None, "no release has an ELR beside metadata.version 21"
