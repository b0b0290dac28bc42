"""KIP-966's unclean recovery: who is elected, whom it waits for, and which replies count."""

from __future__ import annotations

import pytest

from analysis.spec import VARIANTS, AlterPartition, Cluster, LogInfo, Partition, UncleanElection, cluster_for
from analysis.spec.partition import NO_LEADER, NOBODY
from analysis.spec.unclean_recovery import RecoveryChoice, choose_leader
from analysis.spec.variants import IN_NO_RELEASE

KIP = VARIANTS["kip966"]
BALANCED, PROACTIVE, MANUAL = UncleanElection.DISABLED, UncleanElection.ENABLED, UncleanElection.MANUAL
UNAVAILABLE = "ELIGIBLE_LEADERS_NOT_AVAILABLE"


def leaderless(*last_known: int, isr: frozenset[int] = NOBODY, elr: frozenset[int] = NOBODY) -> Partition:
    """A partition of the replicas 3, 1, 2 whose last leader is gone."""
    return Partition(
        (3, 1, 2), isr, elr, last_known, leader_epoch=7, partition_epoch=9, last_known_leader=2, leader=NO_LEADER
    )


def cluster(unclean: UncleanElection = BALANCED, *, down: int | None = None) -> Cluster:
    """Brokers 1 to 4, epochs 101 to 104; the fourth holds no replica."""
    healthy = cluster_for("4.4.0", {}, (1, 2, 3, 4), min_isr=2, unclean=unclean)
    return healthy._replace(unfenced=healthy.unfenced - {down})


def log(broker: int, last_epoch: int, end: int, *, broker_epoch: int | None = None, leader_epoch: int = 7) -> LogInfo:
    return LogInfo(broker, 100 + broker if broker_epoch is None else broker_epoch, last_epoch, end, leader_epoch)


def elected_leader(partition: Partition, known: Cluster, *replies: LogInfo) -> int:
    """The leader after the recovery; `NO_LEADER` where it does not elect."""
    outcome = KIP.recover(partition, known, replies)
    assert (outcome.error == UNAVAILABLE) == (outcome.partition == partition)
    assert outcome.cluster == known
    return outcome.partition.leader


@pytest.mark.parametrize(
    ("replies", "leader"),
    [
        ((log(1, 5, 10), log(2, 5, 30), log(3, 5, 20)), 2),
        ((log(1, 6, 10), log(2, 5, 30), log(3, 5, 20)), 1),
        ((log(1, 5, 10), log(2, 5, 10), log(3, 5, 10)), 3),
        ((log(1, 5, 10), log(2, 5, 10), log(3, 4, 99)), 1),
    ],
    ids=["longest log", "newest last epoch first", "replica order in a tie", "replica order among the longest"],
)
def test_the_longest_log_is_elected(replies: tuple[LogInfo, ...], leader: int) -> None:
    for strategy in (BALANCED, PROACTIVE):
        assert elected_leader(leaderless(), cluster(strategy), *replies) == leader
        assert elected_leader(leaderless(), cluster(strategy), *reversed(replies)) == leader


def test_balanced_waits_for_every_last_known_elr_member_and_proactive_for_none() -> None:
    partition = leaderless(1, 2)
    assert elected_leader(partition, cluster(BALANCED), log(1, 5, 10)) == NO_LEADER
    assert elected_leader(partition, cluster(BALANCED), log(1, 5, 10), log(3, 5, 40)) == NO_LEADER
    assert elected_leader(partition, cluster(BALANCED), log(1, 5, 10), log(2, 5, 9)) == 1
    assert elected_leader(partition, cluster(PROACTIVE), log(1, 5, 10)) == 1
    assert elected_leader(partition, cluster(PROACTIVE), log(3, 5, 1)) == 3


def test_a_reply_from_before_a_restart_does_not_count() -> None:
    stale = log(2, 9, 99, broker_epoch=55)
    assert elected_leader(leaderless(), cluster(PROACTIVE), stale, log(1, 5, 10)) == 1
    assert elected_leader(leaderless(), cluster(PROACTIVE), stale) == NO_LEADER
    assert elected_leader(leaderless(1, 2), cluster(BALANCED), stale, log(1, 5, 10)) == NO_LEADER


def test_a_reply_of_another_leader_epoch_does_not_count() -> None:
    """A reply that left before the last election, or a broker whose metadata is behind or ahead."""
    for other in (6, 8):
        stale = log(2, 9, 99, leader_epoch=other)
        assert elected_leader(leaderless(), cluster(PROACTIVE), stale, log(1, 5, 10)) == 1
        assert elected_leader(leaderless(), cluster(PROACTIVE), stale) == NO_LEADER
        assert elected_leader(leaderless(1, 2), cluster(BALANCED), stale, log(1, 5, 10)) == NO_LEADER


def test_the_last_reply_of_a_broker_counts() -> None:
    assert elected_leader(leaderless(1, 2), cluster(), log(2, 9, 99), log(1, 5, 10), log(2, 5, 9)) == 1
    stale = log(2, 9, 99, broker_epoch=55)
    assert elected_leader(leaderless(1, 2), cluster(), log(1, 5, 10), log(2, 5, 20), stale) == NO_LEADER


def test_the_choice_says_whom_it_awaits_and_why_a_reply_is_void() -> None:
    stale, late = log(2, 9, 99, broker_epoch=55), log(3, 9, 99, leader_epoch=6)
    strange, down = log(4, 9, 99), log(1, 9, 99)
    choice = choose_leader(
        BALANCED,
        (3, 1, 2),
        (2, 3),
        (stale, late, strange, down),
        broker_epochs={2: 102, 3: 103, 4: 104},
        leader_epoch=7,
    )
    assert (choice.leader, choice.awaited) == (NO_LEADER, {2, 3})
    assert dict(choice.void) == {
        stale: "broker epoch 55, registered with 102",
        late: "leader epoch 6, the partition has 7",
        strange: "not a replica",
        down: "fenced or not registered",
    }


def test_manual_elects_nobody_whatever_the_replies() -> None:
    known = {1: 101, 2: 102, 3: 103}
    replies = (log(1, 5, 10), log(2, 5, 10), log(3, 5, 10))
    choice = choose_leader(MANUAL, (3, 1, 2), (), replies, broker_epochs=known, leader_epoch=7)
    assert choice == RecoveryChoice(NO_LEADER)


def test_last_known_elr_members_may_go_before_longer_logs_of_others() -> None:
    """No rule of the KIP, but the repair of what its rule loses."""
    known = {1: 101, 2: 102, 3: 103}
    for strategy in (BALANCED, PROACTIVE):
        longest, member = log(3, 9, 99), log(1, 5, 10)
        for first, leader in ((False, 3), (True, 1)):
            choice = choose_leader(
                strategy,
                (3, 1, 2),
                (1,),
                (longest, member),
                broker_epochs=known,
                leader_epoch=7,
                last_known_first=first,
            )
            assert choice.leader == leader


def test_a_reply_of_a_broker_that_is_down_or_holds_no_replica_does_not_count() -> None:
    assert elected_leader(leaderless(), cluster(PROACTIVE, down=2), log(2, 9, 99), log(1, 5, 10)) == 1
    assert elected_leader(leaderless(), cluster(PROACTIVE), log(4, 9, 99), log(1, 5, 10)) == 1
    assert elected_leader(leaderless(), cluster(PROACTIVE)) == NO_LEADER


@pytest.mark.parametrize(
    ("partition", "known"),
    [
        (leaderless()._replace(leader=2, isr=frozenset({2})), cluster(PROACTIVE)),
        (leaderless()._replace(leader=2, isr=frozenset({2})), cluster(PROACTIVE, down=2)),
        (leaderless(elr=frozenset({2})), cluster(PROACTIVE)),
        (leaderless(isr=frozenset({2})), cluster(PROACTIVE)),
        (leaderless(elr=frozenset({2})), cluster(BALANCED, down=2)),
        (leaderless(2), cluster(BALANCED, down=2)),
        (leaderless(), cluster(MANUAL)),
    ],
    ids=[
        "led",
        "led by a broker that is not fenced yet",
        "live ELR member",
        "live ISR member",
        "Balanced, ELR",
        "Balanced, last known ELR down",
        "Manual",
    ],
)
def test_no_recovery_begins_where_the_kip_has_none(partition: Partition, known: Cluster) -> None:
    assert not KIP.is_recovery_due(partition, known)
    outcome = KIP.recover(partition, known, (log(1, 5, 10), log(3, 5, 10)))
    assert (outcome.partition, outcome.error) == (partition, UNAVAILABLE)


def test_a_recovery_is_an_unclean_election_that_keeps_the_other_last_known_elr_members() -> None:
    """KIP-966, Other behaviors 6a: LastKnownElr is cleaned when the ISR reaches min ISR."""
    partition = leaderless(1, 2)
    outcome = KIP.recover(partition, cluster(), (log(1, 5, 10), log(2, 5, 30)))
    assert outcome.partition == partition._replace(
        leader=2,
        isr=frozenset({2}),
        elr=NOBODY,
        last_known=(1,),
        last_known_leader=NO_LEADER,
        recovering=True,
        leader_epoch=8,
        partition_epoch=10,
    )
    wider = AlterPartition(2, 8, 10, ((2, 102), (3, 103)))
    assert KIP.alter_partition(outcome.partition, cluster(), wider).partition.last_known == ()


def test_a_recovery_that_brings_the_isr_to_min_isr_empties_elr_and_last_known_elr() -> None:
    known = cluster(PROACTIVE, down=2)._replace(min_isr=1)
    after = KIP.recover(leaderless(3, elr=frozenset({2})), known, (log(1, 5, 10),)).partition
    assert (after.leader, after.elr, after.last_known) == (1, NOBODY, ())


def test_a_proactive_recovery_keeps_the_fenced_elr_members() -> None:
    """KIP-966, ELR update 2a: below min ISR the ELR retains its members."""
    after = KIP.recover(leaderless(elr=frozenset({2})), cluster(PROACTIVE, down=2), (log(1, 5, 10),)).partition
    assert (after.leader, after.elr, after.last_known) == (1, {2}, ())
    back = KIP.fence(after, cluster(PROACTIVE), 1).partition
    assert (back.leader, back.isr, back.elr) == (2, {2}, {1})


@pytest.mark.parametrize(
    ("strategy", "manager", "last_leader_down", "leader"),
    [
        (MANUAL, False, True, NO_LEADER),
        (MANUAL, False, False, 2),
        (MANUAL, True, False, NO_LEADER),
        (BALANCED, False, True, NO_LEADER),
        (BALANCED, False, False, 2),
        (BALANCED, True, False, NO_LEADER),
        (PROACTIVE, False, True, 3),
        (PROACTIVE, True, False, NO_LEADER),
    ],
)
def test_the_table_of_the_revision(
    strategy: UncleanElection, manager: bool, last_leader_down: bool, leader: int
) -> None:
    """What happens by itself once a broker is unfenced while ISR and ELR are empty."""
    known = cluster(strategy, down=2)._replace(recovery_manager=manager)
    returning = 1 if last_leader_down else 2
    known = known._replace(unfenced=known.unfenced - {1})
    after = KIP.unfence(leaderless(1, 2), known, returning)
    assert after.partition.leader == leader
    assert after.partition.recovering == (leader != NO_LEADER)


def test_the_table_of_the_revision_with_the_manager() -> None:
    """Its right column: Manual waits for the user, Balanced and Proactive recover; none of them without it."""
    partition = leaderless(1, 2)
    for strategy, recovers in ((MANUAL, False), (BALANCED, True), (PROACTIVE, True)):
        assert KIP.is_recovery_due(partition, cluster(strategy)) == recovers
        assert not KIP.is_recovery_due(partition, cluster(strategy)._replace(recovery_manager=False))


def test_without_the_manager_a_fenced_elr_member_blocks_all_but_an_unclean_election() -> None:
    """KIP-966, Delivery plan: fenced ELR members are waited for, or an unclean election begins."""
    for strategy, leader in ((MANUAL, NO_LEADER), (BALANCED, NO_LEADER), (PROACTIVE, 3)):
        known = cluster(strategy, down=1)._replace(recovery_manager=False)
        known = known._replace(unfenced=known.unfenced - {2})
        after = KIP.unfence(leaderless(elr=frozenset({1})), known, 2).partition
        assert after.leader == leader


def test_a_removed_replica_in_the_last_known_elr_is_not_awaited() -> None:
    assert elected_leader(leaderless(1, 4), cluster(down=4), log(1, 5, 10)) == 1


@pytest.mark.parametrize("strategy", [MANUAL, BALANCED, PROACTIVE])
def test_an_operator_may_name_the_leader_of_a_leaderless_partition(strategy: UncleanElection) -> None:
    """kafka-leader-election, DESIGNATION: only without a leader, only a live replica."""
    partition = leaderless(1, 2)
    after = KIP.designate(partition, cluster(strategy), 1).partition
    assert (after.leader, after.isr, after.last_known, after.recovering) == (1, {1}, (2,), True)
    for broker, known in ((4, cluster(strategy)), (2, cluster(strategy, down=2))):
        assert KIP.designate(partition, known, broker).error == UNAVAILABLE
    assert KIP.designate(after, cluster(strategy), 2).error == "ELECTION_NOT_NEEDED"


def test_the_repair_elects_another_replica_only_if_no_last_known_elr_member_replied() -> None:
    """docs/findings/longest-log.md: broker 3 has an uncommitted record of a newer epoch."""
    replies = (log(1, 5, 10), log(2, 5, 0), log(3, 6, 10))
    assert elected_leader(leaderless(1, 2), cluster(), *replies) == 3
    repaired = VARIANTS["kip966_last_known"]
    for strategy in (BALANCED, PROACTIVE):
        assert repaired.recover(leaderless(1, 2), cluster(strategy), replies).partition.leader == 1
        assert repaired.recover(leaderless(), cluster(strategy), replies).partition.leader == 3
    assert repaired.recover(leaderless(1, 2), cluster(PROACTIVE), (log(3, 6, 10),)).partition.leader == 3


def test_no_release_recovers() -> None:
    for name, protocol in VARIANTS.items():
        outcome = protocol.recover(leaderless(), cluster(PROACTIVE), (log(1, 5, 10),))
        assert (outcome.error == "UNSUPPORTED_VERSION") == (name not in IN_NO_RELEASE)
