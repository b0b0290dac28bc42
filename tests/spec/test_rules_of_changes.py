"""The builder's rules and those of the variants, a sentence each; most of what no conformance vector has."""

from __future__ import annotations

import json
from typing import Any

import pytest
from test_rules import ALL, BELOW, KIP, NEWEST, OLDEST, asks, brokers, cluster, follower, leading, partition

from analysis.spec import VARIANTS, Election, UncleanElection
from analysis.spec.partition import MV_LEADER_RECOVERY, MV_SKIPS_EPOCH_BUMP_ON_SHRINK, NO_LEADER, NOBODY

ELR_40 = VARIANTS["elr_40"]
UNCLEAN = UncleanElection.ENABLED
LEADERLESS = partition(isr=NOBODY, leader=NO_LEADER)


# Reassignments


@pytest.mark.parametrize(
    ("moving", "isr", "replicas"),
    [
        ({"replicas": (1, 2, 3, 4), "adding": brokers(4)}, brokers(1, 2, 3, 4), (1, 2, 3, 4)),
        ({"removing": brokers(3)}, brokers(1, 2), (1, 2)),
    ],
)
def test_a_reassignment_that_only_adds_or_only_removes_completes(
    moving: dict[str, Any], isr: frozenset[int], replicas: tuple[int, ...]
) -> None:
    after = NEWEST.alter_partition(partition(**moving), cluster(), asks(isr)).partition
    assert (after.replicas, after.adding, after.removing) == (replicas, NOBODY, NOBODY)


def test_a_reassignment_waits_while_nobody_would_be_left() -> None:
    assert OLDEST.completed_reassignment(brokers(3), (1, 3), NOBODY, brokers(3), 1) is None
    assert OLDEST.completed_reassignment(brokers(1, 3), (3,), NOBODY, brokers(3), 1) is None
    assert OLDEST.completed_reassignment(brokers(1, 3), (1, 3), NOBODY, brokers(3), 1) == (brokers(1), (1,))


def test_a_reassignment_to_the_brokers_of_an_unfinished_one_keeps_what_it_adds_and_removes() -> None:
    moving = partition(replicas=(1, 2, 4, 3), adding=brokers(4), removing=brokers(3))
    after = NEWEST.reassign(moving, cluster(), (1, 2, 3, 4)).partition
    assert (after.replicas, after.adding, after.removing) == ((1, 2, 3, 4), brokers(4), brokers(3))


def test_an_elr_member_that_would_return_as_a_replica_without_a_directory_fails_the_request() -> None:
    removed = LEADERLESS._replace(replicas=(2, 3), elr=brokers(1))
    known = cluster(unfenced=brokers(1))
    assert NEWEST.reassign(removed, known, (1, 2, 3)) == (removed, known, "UNKNOWN_SERVER_ERROR")
    fenced = LEADERLESS._replace(elr=brokers(2))
    assert NEWEST.reassign(fenced, cluster(unfenced=brokers(4)), (4, 2, 3)).error == "NONE"


def test_a_cancelled_reassignment_must_leave_a_replica_and_may_elect_uncleanly() -> None:
    enabled = cluster(unclean=UNCLEAN, elr=False)
    alone = partition(replicas=(4,), isr=brokers(4), leader=4, adding=brokers(4))
    assert NEWEST.cancel_reassignment(alone, enabled).error == "INVALID_REPLICA_ASSIGNMENT"
    moved = partition(replicas=(4, 1, 2), isr=brokers(4), leader=4, adding=brokers(4))
    after = NEWEST.cancel_reassignment(moved, enabled._replace(unfenced=brokers(2, 4))).partition
    assert (after.leader, after.isr, after.recovering) == (2, brokers(2), True)


def test_a_completed_reassignment_may_elect_uncleanly() -> None:
    moving = partition(replicas=(2, 4, 1), isr=brokers(1), adding=brokers(4), removing=brokers(1))
    known = cluster(unclean=UNCLEAN, offline=brokers(4))
    assert NEWEST.alter_partition(moving, known, asks(brokers(1, 4))).partition.leader == 2


# Elections and epochs


def test_a_clean_election_does_not_make_the_partition_recovering() -> None:
    preferred = partition(leader=2)
    assert NEWEST.elect(preferred, cluster(), Election.PREFERRED).partition == preferred._replace(
        leader=1, leader_epoch=6, partition_epoch=10
    )
    after = NEWEST.fence(partition(), cluster(), 1).partition
    assert (after.leader, after.recovering) == (2, False)


@pytest.mark.parametrize(
    ("level", "before", "recovering"),
    [
        (MV_LEADER_RECOVERY, False, True),
        (MV_LEADER_RECOVERY - 1, False, False),
        (MV_LEADER_RECOVERY - 1, True, True),
    ],
)
def test_an_unclean_election_is_recorded_from_its_metadata_version_on(
    level: int, before: bool, recovering: bool
) -> None:
    known = cluster(elr=False, unfenced=brokers(3), metadata_version=level)
    lost = partition(isr=brokers(1), leader=NO_LEADER, recovering=before)
    after = NEWEST.elect(lost, known, Election.UNCLEAN).partition
    assert (after.leader, after.recovering) == (3, recovering)


def test_before_3_6_iv0_a_shrink_raises_the_leader_epoch_and_a_growth_does_not() -> None:
    old = cluster(elr=False, metadata_version=MV_SKIPS_EPOCH_BUMP_ON_SHRINK - 1)
    assert NEWEST.fence(partition(), old, 3).partition.leader_epoch == 6
    assert NEWEST.fence(partition(), old, 1).partition.leader == 2
    smaller = partition(isr=brokers(1, 2))
    assert NEWEST.alter_partition(smaller, old, asks(ALL)).partition.leader_epoch == 5


@pytest.mark.parametrize(("variant", "epoch"), [("strict_min_isr", 6), ("strict_min_isr_38", 5)])
def test_before_3_8_also_a_shrink_that_is_not_written_raises_the_leader_epoch(variant: str, epoch: int) -> None:
    old = cluster(elr=False, metadata_version=MV_SKIPS_EPOCH_BUMP_ON_SHRINK - 1)
    last = partition(isr=brokers(1), leader=NO_LEADER)
    after = VARIANTS[variant].fence(last, old, 1).partition
    assert (after.isr, after.leader_epoch) == (brokers(1), epoch)


def test_an_unclean_election_empties_the_elr_of_a_release_also_for_broker_0_and_not_that_of_the_kip() -> None:
    waiting = LEADERLESS._replace(elr=brokers(2))
    known = cluster(unfenced=brokers(3), unclean=UNCLEAN, recovery_manager=False)
    assert NEWEST.sweep(waiting, known).partition.elr == NOBODY
    assert KIP.sweep(waiting, known).partition.elr == brokers(2)
    zero = waiting._replace(replicas=(0, 2))
    with_0 = known._replace(registered=brokers(0, 2), unfenced=brokers(0))
    after = NEWEST.sweep(zero, with_0).partition
    assert (after.leader, after.elr) == (0, NOBODY)


def test_a_last_known_leader_waits_while_there_is_an_isr() -> None:
    odd = partition(isr=brokers(1), leader=NO_LEADER, last_known=(2,))
    assert NEWEST.unfence(odd, cluster(unfenced=NOBODY), 2).partition == odd
    alone = LEADERLESS._replace(last_known=(2,))
    assert NEWEST.unfence(alone, cluster(unfenced=NOBODY), 2).partition.leader == 2


def test_who_was_no_leader_is_not_elected_as_the_last_known_one() -> None:
    nobody = LEADERLESS._replace(last_known=(NO_LEADER,))
    after = ELR_40.unfence(nobody, cluster(unfenced=NOBODY, unclean=UNCLEAN), 2).partition
    assert (after.leader, after.recovering) == (2, True)


def test_4_0_forgets_a_last_known_leader_at_any_change_under_another_leader() -> None:
    known = partition(last_known=(3,))
    assert ELR_40.fence(known, cluster(), 3).partition.last_known == ()
    lost = ELR_40.remember(known, brokers(2), NOBODY, NO_LEADER, False, ELR_40.target(known, cluster()))
    assert lost == (3,)


def test_an_unclean_election_may_follow_a_fence_of_the_last_isr_member_or_an_unregistration() -> None:
    enabled = cluster(unclean=UNCLEAN, elr=False)
    assert NEWEST.fence(partition(isr=brokers(1)), enabled, 1).partition.leader == 2
    waiting, known = LEADERLESS._replace(elr=brokers(2)), cluster(unclean=UNCLEAN, unfenced=brokers(3))
    assert NEWEST.unregister(waiting, known, 2).partition.leader == 3


def test_a_fence_of_an_elr_member_writes_nothing() -> None:
    waiting, known = LEADERLESS._replace(elr=brokers(2)), cluster(unclean=UNCLEAN, unfenced=brokers(3))
    assert NEWEST.fence(waiting, known, 2).partition == waiting


# Registrations


def test_a_registration_is_of_a_new_incarnation_unless_it_says_otherwise() -> None:
    after = NEWEST.register(partition(), cluster(), 3, epoch=900, previous_epoch=103).cluster
    assert (after.epoch(3), 3 in after.unfenced) == (900, False)


def test_a_broker_that_registers_after_an_unclean_shutdown_is_not_elected_by_that() -> None:
    last, known = partition(isr=brokers(1)), cluster(unclean=UNCLEAN, unfenced=brokers(1))
    assert NEWEST.register(last, known, 1, epoch=900, previous_epoch=-1).partition.leader == NO_LEADER
    other = NEWEST.register(last, known._replace(unfenced=brokers(1, 2)), 1, epoch=900, previous_epoch=-1)
    assert (other.partition.leader, other.partition.isr) == (2, brokers(2))


def test_without_the_elr_a_registration_leaves_an_old_elr_as_it_is_and_an_assigned_directory_empties_it() -> None:
    off = cluster(elr=False)
    assert NEWEST.register(BELOW, off, 2, epoch=900, previous_epoch=-1).partition == BELOW
    assert NEWEST.assign_directory(BELOW, off, 3).partition.elr == NOBODY


def test_a_clean_shutdown_file_counts_from_3_7_on_and_its_numbers_have_a_size() -> None:
    def file(version: int, epoch: int) -> list[str | None]:
        return [json.dumps({"version": version, "brokerEpoch": epoch})]

    assert VARIANTS["kip903_36"].previous_epoch(file(0, 7)) == -1
    assert VARIANTS["strict_min_isr"].previous_epoch(file(0, 7)) == 7
    assert NEWEST.previous_epoch(file(0, 2**63 - 1)) == 2**63 - 1
    assert [NEWEST.previous_epoch(file(one, 7)) for one in (2**31 - 1, 2**31, -(2**31), -(2**31) - 1)] == [7, -1, 7, -1]


def test_only_the_kips_text_recovers() -> None:
    assert [name for name, one in VARIANTS.items() if one.recovers] == ["kip966", "kip966_last_known"]


# The KIP's text


def test_the_text_remembers_a_lost_leader_until_another_is_elected() -> None:
    assert KIP.remember_leader(partition(), NO_LEADER) == 1
    assert KIP.remember_leader(partition(last_known_leader=3), 2) == NO_LEADER
    assert KIP.remember_leader(partition(last_known_leader=3), 0) == NO_LEADER
    assert KIP.remember_leader(LEADERLESS._replace(last_known_leader=3), NO_LEADER) == 3
    assert KIP.remember_leader(LEADERLESS._replace(last_known_leader=3), -2) == 3
    assert NEWEST.remember_leader(partition(), NO_LEADER) == NO_LEADER
    lost = KIP.fence(partition(isr=brokers(1)), cluster(), 1)
    assert lost.partition.last_known_leader == 1
    assert KIP.unfence(lost.partition, lost.cluster, 1).partition.last_known_leader == NO_LEADER


def test_the_elr_of_the_text_is_empty_at_min_isr_and_has_no_removed_replica() -> None:
    target = KIP.target(partition(), cluster())
    assert KIP.final_elr(brokers(2, 9), brokers(1), (1, 2, 3), target, reassigning=False) == brokers(2)
    assert KIP.final_elr(brokers(2, 9), brokers(1), (1, 2, 3), target, reassigning=True) == brokers(2, 9)
    assert KIP.final_elr(brokers(2), brokers(1, 3), (1, 2, 3), target, reassigning=True) == NOBODY
    assert NEWEST.final_elr(brokers(2, 9), brokers(1), (1, 2, 3), target, reassigning=False) == brokers(2, 9)


@pytest.mark.parametrize(
    ("moving", "kept"),
    [
        ({}, False),
        ({"replicas": (1, 2, 3, 4), "adding": brokers(4)}, True),
        ({"removing": brokers(3)}, True),
    ],
)
def test_while_a_reassignment_goes_on_the_elr_of_the_text_keeps_its_members(moving: dict[str, Any], kept: bool) -> None:
    after = KIP.fence(BELOW._replace(elr=brokers(2, 9), **moving), cluster(), 1).partition
    assert (9 in after.elr) == kept


def test_the_text_remembers_who_left_the_isr_by_an_unclean_shutdown() -> None:
    after = KIP.register(partition(isr=brokers(1)), cluster(), 1, epoch=900, previous_epoch=-1).partition
    assert (after.isr, after.elr, after.last_known) == (NOBODY, NOBODY, (1,))


def test_a_last_known_elr_member_of_the_text_does_not_lead_by_itself() -> None:
    known = LEADERLESS._replace(last_known=(2,))
    assert KIP.unfence(known, cluster(unfenced=NOBODY), 2).partition.leader == NO_LEADER


def test_without_the_manager_the_last_leader_waits_for_an_isr_and_leaves_the_election_to_another() -> None:
    off = cluster(unfenced=NOBODY, recovery_manager=False)
    remembered = LEADERLESS._replace(last_known_leader=2)
    assert KIP.unfence(remembered, off, 2).partition.leader == 2
    assert KIP.unfence(remembered._replace(isr=brokers(1)), off, 2).partition.leader == NO_LEADER
    enabled = off._replace(unclean=UNCLEAN, unfenced=brokers(1))
    assert KIP.unfence(remembered, enabled, 2).partition.leader == 1


def test_a_cancelled_reassignment_of_the_text_counts_the_replicas_of_before() -> None:
    one = partition(replicas=(1, 4), isr=brokers(1, 4), adding=brokers(4))
    assert KIP.cancel_reassignment(one, cluster()).error == "NONE"
    three = partition(replicas=(1, 2, 3, 4), isr=brokers(1, 2), adding=brokers(4))
    assert KIP.cancel_reassignment(three, cluster()).error == "NONE"
    assert not KIP.may_complete(brokers(1, 2), (1, 2, 4), brokers(4), brokers(3), 2)


def test_balanced_waits_for_a_fenced_isr_and_for_no_replica_outside_the_last_known_elr() -> None:
    two = cluster(unfenced=brokers(2))
    assert KIP.is_recovery_due(LEADERLESS._replace(last_known=(2,)), two)
    assert not KIP.is_recovery_due(LEADERLESS._replace(last_known=(2, 3)), two)
    assert not KIP.is_recovery_due(partition(isr=brokers(1), leader=NO_LEADER, last_known=(2,)), two)


def test_a_follower_ahead_of_its_leader_does_not_move_the_hw_beyond_the_log() -> None:
    assert NEWEST.advance_hw(leading(follower(2, 12)), 2).hw == 10
