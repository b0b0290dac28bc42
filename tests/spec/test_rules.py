"""The rules of the controller and of the leader, a sentence each; most of what no conformance vector has."""

from __future__ import annotations

from typing import Any

import pytest

from analysis.spec import VARIANTS, AlterPartition, Cluster, Election, Partition, UncleanElection
from analysis.spec.leader import Follower, Leader
from analysis.spec.partition import MV_ELR, MV_FETCH_CARRIES_BROKER_EPOCH, NO_EPOCH, NO_LEADER, NOBODY

NEWEST, OLDEST, KIP = VARIANTS["elr_43"], VARIANTS["kraft"], VARIANTS["kip966"]
ALL = frozenset({1, 2, 3})


def brokers(*ids: int) -> frozenset[int]:
    return frozenset(ids)


def cluster(**changed: Any) -> Cluster:
    """Brokers 1 to 4 run, with epochs 101 to 104; the topic's min ISR is 2, and the ELR is on."""
    known = brokers(1, 2, 3, 4)
    healthy = Cluster(
        known, known, epochs=(-1, 101, 102, 103, 104), min_isr=2, topic_min_isr=True, elr=True, metadata_version=MV_ELR
    )
    return healthy._replace(**changed)


def partition(**changed: Any) -> Partition:
    """A partition of brokers 1, 2 and 3, whole, which broker 1 leads in epoch 5."""
    return Partition((1, 2, 3), ALL, leader=1, leader_epoch=5, partition_epoch=9)._replace(**changed)


# What the controller records of brokers


def test_a_fence_takes_the_broker_from_the_unfenced_ones_and_nobody_else() -> None:
    assert NEWEST.fence(partition(), cluster(), 3).cluster == cluster(unfenced=brokers(1, 2, 4))


def test_an_unfence_adds_the_broker_and_an_unregistered_one_is_refused() -> None:
    fenced = cluster(unfenced=brokers(1, 2))
    assert NEWEST.unfence(partition(), fenced, 3).cluster.unfenced == ALL
    unknown = fenced._replace(registered=brokers(1, 2))
    assert NEWEST.unfence(partition(), unknown, 3) == (partition(), unknown, "BROKER_ID_NOT_REGISTERED")


def test_a_new_registration_is_fenced_runs_and_has_its_directories() -> None:
    down = cluster(registered=brokers(1, 2, 4), shutting_down=brokers(2, 3), offline=brokers(2, 3))
    after = NEWEST.register(partition(), down, 3, epoch=900, previous_epoch=-1).cluster
    assert (after.registered, after.unfenced) == (brokers(1, 2, 3, 4), brokers(1, 2, 4))
    assert (after.shutting_down, after.offline) == (brokers(2), brokers(2))
    assert after.epochs == (-1, 101, 102, 900, 104)


@pytest.mark.parametrize(("variant", "epoch"), [("strict_min_isr_38", 900), ("strict_min_isr_39", 103)])
def test_the_same_incarnation_keeps_its_epoch_from_3_9_on(variant: str, epoch: int) -> None:
    again = {"epoch": 900, "previous_epoch": -1, "same_incarnation": True}
    after = VARIANTS[variant].register(partition(), cluster(), 3, **again)  # type: ignore[arg-type]
    assert (after.partition, after.cluster.epoch(3), after.cluster.unfenced) == (partition(), epoch, cluster().unfenced)


def test_a_broker_that_is_not_registered_has_no_incarnation_to_keep() -> None:
    gone = cluster(registered=brokers(1, 2, 4), unfenced=brokers(1, 2, 4))
    after = NEWEST.register(partition(), gone, 3, epoch=900, previous_epoch=-1, same_incarnation=True).cluster
    assert (after.epoch(3), 3 in after.registered) == (900, True)


def test_a_broker_id_above_all_others_gets_an_epoch() -> None:
    after = NEWEST.register(partition(), cluster(), 7, epoch=700, previous_epoch=-1).cluster
    assert after.epochs == (-1, 101, 102, 103, 104, -1, -1, 700)
    assert (after.epoch(6), after.epoch(8)) == (NO_EPOCH, NO_EPOCH)


def test_a_controlled_shutdown_marks_the_broker_and_keeps_it_registered() -> None:
    stopping = cluster(shutting_down=brokers(4))
    after = NEWEST.controlled_shutdown(partition(), stopping, 3)
    assert after.cluster == cluster(shutting_down=brokers(3, 4))
    assert after.partition.isr == brokers(1, 2)


def test_an_unregistration_forgets_the_broker_and_its_epoch() -> None:
    after = NEWEST.unregister(partition(), cluster(), 3).cluster
    assert (after.registered, after.unfenced, after.epoch(3)) == (brokers(1, 2, 4), brokers(1, 2, 4), NO_EPOCH)
    unknown = cluster(registered=brokers(1, 2))
    assert NEWEST.unregister(partition(), unknown, 3) == (partition(), unknown, "BROKER_ID_NOT_REGISTERED")


def test_a_directory_that_fails_is_offline_until_another_is_assigned() -> None:
    failed = NEWEST.directory_offline(partition(), cluster(offline=brokers(4)), 3)
    assert (failed.cluster.offline, failed.partition.isr) == (brokers(3, 4), brokers(1, 2))
    assert NEWEST.assign_directory(partition(), failed.cluster, 3).cluster.offline == brokers(4)
    assert NEWEST.assign_directory(partition(), cluster(), 4).error == "NOT_LEADER_OR_FOLLOWER"
    for event in (OLDEST.directory_offline, OLDEST.assign_directory):
        assert event(partition(), cluster(), 3) == (partition(), cluster(), "UNSUPPORTED_VERSION")


def test_only_brokers_that_are_registered_and_unfenced_are_live_and_a_shutdown_or_a_failed_directory_ends_that() -> (
    None
):
    odd = cluster(registered=brokers(1, 2, 3), shutting_down=brokers(2), offline=brokers(3))
    assert (odd.active, odd.live) == (brokers(1, 3), brokers(1))


# min.insync.replicas and features

BELOW = partition(isr=brokers(1), elr=brokers(2), leader=1)


@pytest.mark.parametrize("value", [1, 3])
def test_any_new_min_isr_clears_the_elr_of_a_release_and_raises_the_partition_epoch_alone(value: int) -> None:
    after = NEWEST.set_min_isr(BELOW, cluster(), value, topic=True)
    assert after == (BELOW._replace(elr=NOBODY, partition_epoch=10), cluster(min_isr=value), "NONE")


def test_in_the_kips_text_only_a_min_isr_that_the_isr_reaches_clears_the_elr() -> None:
    assert KIP.set_min_isr(BELOW, cluster(), 1, topic=True).partition.elr == NOBODY
    assert KIP.set_min_isr(BELOW, cluster(), 3, topic=True).partition == BELOW


def test_the_last_known_leader_is_cleared_too_and_nothing_is_written_where_nothing_is_cleared() -> None:
    leaderless = partition(isr=NOBODY, last_known=(1,), leader=NO_LEADER)
    assert NEWEST.set_min_isr(leaderless, cluster(), 1, topic=True).partition.last_known == ()
    assert NEWEST.set_min_isr(partition(), cluster(), 1, topic=True).partition == partition()


@pytest.mark.parametrize(
    ("known", "value", "topic", "cleared"),
    [
        ({}, 2, True, False),  # the value that the topic has
        ({"topic_min_isr": False}, 2, True, True),
        ({"topic_min_isr": False}, 2, False, True),
        ({}, 2, False, True),
        ({"elr": False}, 1, True, False),
    ],
)
def test_the_elr_is_cleared_unless_the_topic_had_the_value_or_the_feature_is_off(
    known: dict[str, Any], value: int, topic: bool, cleared: bool
) -> None:
    assert (NEWEST.set_min_isr(BELOW, cluster(**known), value, topic=topic).partition != BELOW) == cleared


def test_a_topics_min_isr_hides_the_clusters_and_stays() -> None:
    without = cluster(topic_min_isr=False)
    assert NEWEST.set_min_isr(partition(), without, 3, topic=False).cluster == without._replace(min_isr=3)
    assert NEWEST.set_min_isr(partition(), without, 3, topic=True).cluster == cluster(min_isr=3)
    assert NEWEST.set_min_isr(partition(), cluster(), 3, topic=False).cluster == cluster()
    assert NEWEST.set_min_isr(partition(), cluster(), 3, topic=True).cluster == cluster(min_isr=3)
    assert NEWEST.set_min_isr(partition(), cluster(), 0, topic=True) == (partition(), cluster(), "INVALID_CONFIG")


def test_a_brokers_min_isr_changes_nothing_without_the_elr() -> None:
    off = cluster(elr=False)
    assert [NEWEST.set_broker_min_isr(partition(), off, one).error for one in (2, 0, None)] == [
        "NONE",
        "INVALID_CONFIG",
        "NONE",
    ]


def test_the_elr_feature_needs_the_code_and_the_metadata_version() -> None:
    off = cluster(elr=False)
    assert NEWEST.set_elr_feature(partition(), off, True).cluster == cluster()
    assert NEWEST.set_elr_feature(BELOW, cluster(), False) == (BELOW, off, "NONE")
    older = off._replace(metadata_version=MV_ELR - 1)
    assert NEWEST.set_elr_feature(partition(), older, True).error == "INVALID_UPDATE_VERSION"
    assert VARIANTS["strict_min_isr_39"].set_elr_feature(partition(), off, True).error == "INVALID_UPDATE_VERSION"
    assert VARIANTS["strict_min_isr_39"].set_elr_feature(partition(), off, False).error == "NONE"


@pytest.mark.parametrize(
    ("variant", "level", "epoch"),
    [
        ("kip903", MV_FETCH_CARRIES_BROKER_EPOCH, 103),
        ("kip903", MV_FETCH_CARRIES_BROKER_EPOCH - 1, NO_EPOCH),
        ("kraft", MV_FETCH_CARRIES_BROKER_EPOCH, NO_EPOCH),
    ],
)
def test_a_fetch_carries_the_broker_epoch_from_kip_903_and_its_metadata_version_on(
    variant: str, level: int, epoch: int
) -> None:
    assert VARIANTS[variant].fetch_epoch(cluster(metadata_version=level), 3) == epoch


@pytest.mark.parametrize(("version", "stored", "previous", "clean"), [(3, 103, 103, True), (2, 103, 103, False)])
def test_a_registration_is_clean_if_it_can_say_so_and_has_the_stored_epoch(
    version: int, stored: int, previous: int, clean: bool
) -> None:
    assert NEWEST.is_clean(cluster(), 3, previous, version) is clean
    assert not NEWEST.is_clean(cluster(), 3, previous + 1, version)
    assert not NEWEST.is_clean(cluster(), 9, NO_EPOCH, version)


def test_unclean_elections_need_the_config_and_a_release_that_reads_it() -> None:
    enabled = cluster(unclean=UncleanElection.ENABLED)
    assert NEWEST.automatic_election(enabled) is Election.UNCLEAN
    assert NEWEST.automatic_election(cluster(unclean=UncleanElection.MANUAL)) is Election.ONLINE
    assert OLDEST.automatic_election(enabled) is Election.ONLINE
    assert KIP.automatic_election(enabled) is Election.ONLINE
    assert KIP.automatic_election(enabled._replace(recovery_manager=False)) is Election.UNCLEAN


# Requests of leaders and operators


def asks(isr: frozenset[int], **changed: Any) -> AlterPartition:
    """The leader asks for this ISR, with the epochs of all that it has heard of."""
    request = AlterPartition(1, 5, 9, tuple((one, 100 + one) for one in sorted(isr)), broker_epoch=101)
    return request._replace(**changed)


@pytest.mark.parametrize(
    ("request_", "known", "error"),
    [
        (asks(brokers(1, 2)), {}, ""),
        (asks(brokers(1, 2), broker_epoch=100), {}, "STALE_BROKER_EPOCH"),
        (asks(brokers(1, 2), broker_epoch=NO_EPOCH), {}, ""),
        (asks(brokers(1, 2), leader_epoch=6), {}, "NOT_CONTROLLER"),
        (asks(brokers(1, 2), partition_epoch=10), {}, "NOT_CONTROLLER"),
        (asks(brokers(1, 2), leader_epoch=4), {}, "FENCED_LEADER_EPOCH"),
        (asks(brokers(1, 2), leader=2, broker_epoch=102), {}, "INVALID_REQUEST"),
        (asks(brokers(1, 2), partition_epoch=8), {}, "INVALID_UPDATE_VERSION"),
        (asks(brokers(1, 4)), {}, "INVALID_REQUEST"),
        (asks(brokers(2, 3)), {}, "INVALID_REQUEST"),
        (asks(brokers(1), recovering=True), {}, "INVALID_REQUEST"),
        (asks(brokers(1, 2)), {"unfenced": brokers(1, 3, 4)}, "INELIGIBLE_REPLICA"),
        (asks(brokers(1, 2), isr_epochs=((1, 101), (2, 99))), {}, "INELIGIBLE_REPLICA"),
        (asks(brokers(1, 2), isr_epochs=((1, 101), (2, NO_EPOCH))), {}, ""),
    ],
)
def test_the_controller_refuses_an_alter_partition(request_: AlterPartition, known: dict[str, Any], error: str) -> None:
    assert NEWEST.alter_partition_error(partition(), cluster(**known), request_) == error


def test_a_recovering_partition_may_stay_so_with_an_isr_of_one() -> None:
    recovering = partition(isr=brokers(1), recovering=True)
    assert NEWEST.alter_partition_error(recovering, cluster(), asks(brokers(1), recovering=True)) == ""
    assert NEWEST.alter_partition_error(recovering, cluster(), asks(brokers(1, 2), recovering=True)) != ""


def test_before_kip_903_the_controller_compares_no_epochs() -> None:
    old = asks(brokers(1, 2), isr_epochs=((1, 101), (2, 99)))
    assert OLDEST.alter_partition_error(partition(), cluster(), old) == ""


@pytest.mark.parametrize("target", [(), (1, 1, 2), (1, 2, 9)])
def test_a_reassignment_to_nobody_to_one_broker_twice_or_to_an_unknown_one_is_refused(target: tuple[int, ...]) -> None:
    after = NEWEST.reassign(partition(), cluster(), target)
    assert after == (partition(), cluster(), "INVALID_REPLICA_ASSIGNMENT")


def test_an_unfinished_reassignment_keeps_what_a_new_one_does_not_name() -> None:
    first = NEWEST.reassign(partition(), cluster(), (1, 2, 4)).partition
    assert (first.replicas, first.adding, first.removing) == ((1, 2, 4, 3), brokers(4), brokers(3))
    again = NEWEST.reassign(first, cluster(), (1, 2, 4)).partition
    assert (again.adding, again.removing) == (brokers(4), brokers(3))


def test_a_cancelled_reassignment_leaves_the_replicas_of_before() -> None:
    moving = partition(replicas=(1, 2, 4, 3), isr=brokers(1, 2, 4), adding=brokers(4), removing=brokers(3))
    after = NEWEST.cancel_reassignment(moving, cluster()).partition
    assert (after.replicas, after.isr, after.adding, after.removing) == ((1, 2, 3), brokers(1, 2), NOBODY, NOBODY)
    shrinking = partition(removing=brokers(3))
    assert NEWEST.cancel_reassignment(shrinking, cluster()).partition.removing == NOBODY
    assert NEWEST.cancel_reassignment(partition(), cluster()).error == "NO_REASSIGNMENT_IN_PROGRESS"


def test_a_reassignment_whose_isr_was_all_added_goes_on_unless_unclean_elections_are_on() -> None:
    moved = partition(replicas=(4, 1, 2, 3), isr=brokers(4), leader=4, adding=brokers(4))
    assert NEWEST.cancel_reassignment(moved, cluster()).error == "INVALID_REPLICA_ASSIGNMENT"
    after = NEWEST.cancel_reassignment(moved, cluster(unclean=UncleanElection.ENABLED)).partition
    assert (after.replicas, after.isr, after.leader) == ((1, 2, 3), brokers(1), 1)


def test_in_the_kips_text_a_reassignment_completes_and_is_cancelled_only_at_min_isr() -> None:
    moving = partition(replicas=(1, 2, 4, 3), isr=brokers(1), adding=brokers(4), removing=brokers(3))
    assert KIP.cancel_reassignment(moving, cluster()).error == "INVALID_REPLICA_ASSIGNMENT"
    assert not KIP.may_complete(brokers(4), (1, 2, 4), brokers(4), brokers(3), 2)
    assert KIP.may_complete(brokers(1, 4), (1, 2, 4), brokers(4), brokers(3), 2)
    assert KIP.may_complete(brokers(4), (4,), brokers(4), brokers(3), 2)


def test_before_3_8_a_reassignment_needs_only_the_added_replicas() -> None:
    assert OLDEST.may_complete(brokers(4), (1, 4), brokers(4), NOBODY, 2)
    assert OLDEST.may_complete(brokers(1, 4), (1, 4), brokers(4), NOBODY, 2)
    assert not OLDEST.may_complete(brokers(1), (1, 4), brokers(4), NOBODY, 2)


# What the leader does


def leading(*followers: Follower, **changed: Any) -> Leader:
    """Broker 1 leads with LEO 10 and HW 5; every follower is in its ISR."""
    ids = [one.broker for one in followers]
    isr = brokers(1, *ids)
    return Leader(1, (1, *ids), isr, isr, followers, leo=10, hw=5, broker_epoch=101)._replace(**changed)


def follower(broker: int, leo: int, **changed: Any) -> Follower:
    return Follower(broker, leo, fetch_epoch=100 + broker, metadata_epoch=100 + broker)._replace(**changed)


def test_the_hw_waits_for_every_member_of_the_maximal_isr() -> None:
    joining = leading(follower(2, 9), follower(3, 7, caught_up=False), isr=brokers(1, 2))
    assert NEWEST.advance_hw(joining, 2).hw == 7
    assert NEWEST.advance_hw(joining._replace(maximal=brokers(1, 2)), 2).hw == 9


@pytest.mark.parametrize(("variant", "hw"), [("kip903", 7), ("kip903_36", 9)])
def test_the_hw_waits_for_a_caught_up_follower_that_may_not_join_until_3_6(variant: str, hw: int) -> None:
    fenced = leading(follower(2, 9), follower(3, 7, fenced=True), isr=brokers(1, 2), maximal=brokers(1, 2))
    assert VARIANTS[variant].advance_hw(fenced, 1).hw == hw
    may_join = leading(follower(2, 9), follower(3, 7), isr=brokers(1, 2), maximal=brokers(1, 2))
    assert VARIANTS[variant].advance_hw(may_join, 1).hw == 7


@pytest.mark.parametrize(("variant", "hw"), [("kip903_36", 10), ("strict_min_isr", 5)])
def test_below_min_isr_the_hw_stands_still_from_3_7_on(variant: str, hw: int) -> None:
    alone = leading(follower(2, 3, caught_up=False), isr=brokers(1), maximal=brokers(1))
    assert VARIANTS[variant].advance_hw(alone, 2).hw == hw


@pytest.mark.parametrize(("acks", "error"), [(-1, "NOT_ENOUGH_REPLICAS"), (1, "NONE")])
def test_only_acks_all_is_refused_below_min_isr(acks: int, error: str) -> None:
    alone = leading(follower(2, 3, caught_up=False), isr=brokers(1), maximal=brokers(1))
    assert NEWEST.append(alone, 2, acks).error == error
    assert NEWEST.append(leading(follower(2, 10)), 2, acks).error == "NONE"


@pytest.mark.parametrize(
    ("hw", "epoch_start", "offset", "joins"), [(5, 8, 7, False), (5, 8, 8, True), (8, 5, 7, False), (8, 5, 8, True)]
)
def test_a_follower_joins_at_the_hw_and_not_below_the_start_of_the_leader_epoch(
    hw: int, epoch_start: int, offset: int, joins: bool
) -> None:
    leader = leading(follower(2, 10), follower(3, 0), isr=brokers(1, 2), maximal=brokers(1, 2))
    step = NEWEST.fetch(leader._replace(hw=hw, epoch_start=epoch_start), 2, 3, offset, 103)
    assert (step.proposed is not None) == joins
    assert step.leader.maximal == (ALL if joins else brokers(1, 2))
    if joins:
        assert step.proposed == ((1, 101), (2, 102), (3, 103))


@pytest.mark.parametrize(("variant", "error"), [("kip903_36", "NONE"), ("strict_min_isr", "NOT_LEADER_OR_FOLLOWER")])
def test_a_fetch_from_before_a_reboot_is_refused_from_3_7_on(variant: str, error: str) -> None:
    leader = leading(follower(2, 10))
    assert VARIANTS[variant].fetch(leader, 1, 2, 10, 99).error == error
    assert VARIANTS[variant].fetch(leader, 1, 2, 10, 102).error == "NONE"
    assert VARIANTS[variant].fetch(leader, 1, 2, 10, NO_EPOCH).error == "NONE"


def test_a_fetch_of_no_replica_is_refused() -> None:
    assert NEWEST.fetch(leading(follower(2, 10)), 1, 7, 10, 107).error == "UNKNOWN_TOPIC_OR_PARTITION"


def test_before_kip_903_a_follower_joins_with_any_epoch_and_the_leader_sends_none() -> None:
    stale = leading(follower(2, 10, fetch_epoch=1))
    assert OLDEST.may_join(stale.followers[0])
    assert not NEWEST.may_join(stale.followers[0])
    assert not NEWEST.may_join(follower(2, 10, fetch_epoch=None))
    assert NEWEST.may_join(follower(2, 10, fetch_epoch=NO_EPOCH))
    assert OLDEST.proposal(stale, brokers(1, 2)) == ((1, NO_EPOCH), (2, NO_EPOCH))


def test_who_falls_behind_leaves_unless_it_is_at_the_end_of_the_log_or_a_request_is_pending() -> None:
    behind = leading(follower(2, 4, caught_up=False), follower(3, 10, caught_up=False))
    assert NEWEST.maybe_shrink(behind, 2).proposed == ((1, 101), (3, 103))
    assert NEWEST.maybe_shrink(behind._replace(pending="EXPAND"), 2).proposed is None
    assert NEWEST.maybe_shrink(leading(follower(2, 4)), 2).proposed is None
    outside = behind._replace(isr=brokers(1, 3), maximal=brokers(1, 3))
    assert NEWEST.maybe_shrink(outside, 2).proposed is None


@pytest.mark.parametrize(
    ("error", "goes_back", "retried"),
    [
        *((one, True, False) for one in ("INELIGIBLE_REPLICA", "OPERATION_NOT_ATTEMPTED")),
        *(
            (one, False, False)
            for one in (
                "UNKNOWN_TOPIC_OR_PARTITION",
                "UNKNOWN_TOPIC_ID",
                "FENCED_LEADER_EPOCH",
                "INVALID_UPDATE_VERSION",
                "INVALID_REQUEST",
                "NEW_LEADER_ELECTED",
            )
        ),
        ("NOT_CONTROLLER", False, True),
    ],
)
def test_an_error_makes_the_leader_go_back_wait_or_ask_again(error: str, goes_back: bool, retried: bool) -> None:
    pending = leading(follower(2, 10), isr=brokers(1), pending="EXPAND")
    step = NEWEST.isr_refused(pending, error)
    assert step.retried is retried
    assert (step.leader == pending) is not goes_back
    if goes_back:
        assert (step.leader.maximal, step.leader.pending) == (brokers(1), "")
