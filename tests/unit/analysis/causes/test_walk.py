"""What the walk through the moments of a partition lets replicas fetch and lose."""

from __future__ import annotations

from typing import Any

import causes_rows as row
import pytest
from causes_by_hand import OTHER, ask, cut, disk, down, event, ns, partition, question, rules, sends, state, watermarks

from analysis.causes.evidence import SLACK_NS, DiskLoss, MeasuredEnds, ReadRows
from analysis.causes.guilt import Guilt
from analysis.causes.histories import Walk
from analysis.causes.intervals import DISK_TOOK_IT, NEVER_HAD_IT
from analysis.causes.partition import EvidentPartition
from ebbtide.record.node_times import Span

FIRST_HW = 3
"""The first HW of a leader shows that it led, and nothing of its log."""
REGISTERED = tuple(event(at, 0.5, at, "registered") for at in (1, 2, 3))


def test_a_disk_lost_before_the_election_of_a_writer_took_nothing_that_it_appended() -> None:
    # A producer sent the record before that election, and again after it.
    found = partition(
        state(0, 0.5, 1, 0, (1,)),
        state(1, 1.2, -1, 1, (1,)),
        state(2, 2, 1, 2, (1,)),
        state(3, 4.5, -1, 3, (1,)),
        state(4, 6, 1, 4, (1,)),
        disks=(disk(1, 1.5),),
        downs=(down(1, 1.4, 1.6), down(1, 4, 5)),
        final=row.replaced_under(4),
    )
    assert ask(found, writers=(2,), sent_ns=ns(1), done_s=2.6).cause == "unexplained"


def test_a_walk_begins_at_the_first_state_where_the_record_before_it_is_missing() -> None:
    found = ask(row.lacking_member(1, 2, 3, disks=(disk(3, 9, 1),)))
    assert (found.cause, found.guilty) == ("unexplained", 1)


@pytest.mark.parametrize(("before", "may_be_kept"), [(None, True), (6, False)])
def test_the_disk_of_a_leader_that_leads_on_may_have_taken_the_record(before: int | None, *, may_be_kept: bool) -> None:
    found = ask(partition(row.ALL, disks=(disk(1, 5, before),), downs=(down(1, 5, 5.1),)))
    assert [one.guilt for one in found.histories] == [Guilt(reasons=DISK_TOOK_IT)]
    assert found.may_be_kept is may_be_kept


def test_at_the_end_each_disk_loss_has_happened() -> None:
    # Close to a state, it may have come before or after it.
    found = row.last_replica(disks=(disk(1, 4, 6), disk(3, 4.4)))
    assert {one.lost_early for one in Walk(found, question(), 0).histories()} == {frozenset()}


@pytest.mark.parametrize(
    ("events", "may_be_kept"), [((), True), ((event(1, 0.5, 2, "registered"),), False)], ids=["unknown", "known"]
)
def test_a_broker_joins_by_the_request_of_a_dead_process_if_nothing_says_that_it_registered_again(
    events: tuple[object, ...], *, may_be_kept: bool
) -> None:
    # If the registrations are not known, it may have registered and fetched the record again before the cut.
    fields = {"broker_events": events, "silences": (cut(1, 2, 4.9),), **seen(2, 1)}
    found = row.stale_join(rules(kip_903=True), downs=(down(2, 4, 4.8), down(1, 6)), **fields)
    assert ask(found).may_be_kept is may_be_kept


def seen(leader: int, epoch: int) -> dict[str, Any]:
    """Return the evidence that a leader led, and nothing of its log."""
    return {"final": ReadRows(), "watermarks": watermarks((leader, epoch, FIRST_HW, 9, 9.1))}


def fetched_from_second(partition_epoch: int) -> EvidentPartition:
    """Broker 3 is cut off from the writer; broker 2 has the record, is elected about its death, and then broker 3 is.

    A partition epoch above 1 shows that a record is missing before the election of broker 2.
    """
    return partition(
        state(0, 1, 1, 0, (1, 2)),
        state(1, 5, 2, 1, (2,), partition_epoch=partition_epoch),
        state(2, 8, 3, 2, (3,), partition_epoch=partition_epoch + 1),
        rules=(rules(unclean=True),),
        silences=(cut(1, 3),),
        downs=(down(1, 3), down(2, 4.5)),
        broker_events=REGISTERED,
        **seen(3, 2),
    )


@pytest.mark.parametrize(("partition_epoch", "may_be_kept"), [(1, False), (2, True)])
def test_a_leader_whose_election_is_missing_may_have_served_fetches_before_it_died(
    partition_epoch: int, *, may_be_kept: bool
) -> None:
    assert ask(fetched_from_second(partition_epoch)).may_be_kept is may_be_kept


@pytest.mark.parametrize(("died_s", "may_be_kept"), [(4, False), (4.9, True)])
def test_a_replica_gets_what_its_disk_lost_from_a_leader_that_lives(died_s: float, *, may_be_kept: bool) -> None:
    found = partition(
        state(0, 1, 1, 0, (1, 2)),
        state(1, 8, 2, 1, (2,)),
        disks=(disk(2, 4.5, 6),),
        downs=(down(1, died_s), down(2, 4.5, 4.6)),
        broker_events=REGISTERED,
        **seen(2, 1),
    )
    assert ask(found).may_be_kept is may_be_kept


def test_a_leader_does_not_fetch_from_itself_what_its_disk_lost() -> None:
    found = ask(partition(row.ALONE, disks=(disk(1, 5, 6),), downs=(down(1, 5, 5.1),)))
    assert not found.may_be_kept


@pytest.mark.parametrize(
    ("slack_s", "started_s", "guilty"),
    [
        (SLACK_NS / 1e9, 6, 4),
        # Where a clock was set, or the loss took so long that its broker was started meanwhile, it may be back.
        (0.3, 6, None),
        (SLACK_NS / 1e9, 4.42, None),
    ],
)
def test_a_broker_does_not_lead_without_the_disk_that_it_may_lose_later(
    slack_s: float, started_s: float, guilty: int | None
) -> None:
    gone = DiskLoss(broker=2, within=Span(first_ns=ns(4.4), last_ns=ns(4.45)), ends=MeasuredEnds(6, 0))
    found = partition(
        state(0, 1, 2, 0, (2,)),
        state(1, 3, -1, 1, (2,)),
        state(2, 4.5, 2, 2, (2,)),
        state(3, 5.5, -1, 3, (2,)),
        state(4, 8, 2, 4, (2,)),
        disks=(gone,),
        downs=(down(2, 4.4, started_s),),
        broker_events=(event(1, 0.5, 2, "registered"), event(35, 7, 2, "registered")),
        slack_ns=ns(slack_s),
        final=row.replaced_under(4),
    )
    answer = ask(found)
    assert (answer.cause, answer.guilty) == ("last-replica-standing", guilty)


@pytest.mark.parametrize(("sent_s", "may_be_kept"), [(2, True), (3.5, True), (6, False)])
def test_a_leader_that_follows_another_one_serves_no_more_fetches(sent_s: float, *, may_be_kept: bool) -> None:
    # Broker 1 was deposed at 3 s, and joined the ISR of the next leader at 4 s.
    found = partition(
        row.ALONE, state(1, 3, 2, 1, (2,)), state(2, 4, 2, 1, (1, 2)), rules=(rules(unclean=True),), **seen(2, 1)
    )
    asked = {"sent_ns": ns(sent_s), "done_s": sent_s + 0.1, "acks_all": False}
    assert ask(found, **asked).may_be_kept is may_be_kept


@pytest.mark.parametrize(("partition_epoch", "may_never_have_had_it"), [(1, False), (2, True)])
def test_a_disk_that_was_measured_behind_a_gap_need_not_have_held_this_record(
    partition_epoch: int, *, may_never_have_had_it: bool
) -> None:
    # A leader that the gap hides may have led by then, with another record at the offset.
    found = partition(
        row.ALL,
        state(1, 6, -1, 2, (3,), partition_epoch=partition_epoch),
        state(2, 9, 3, 3, (3,), partition_epoch=partition_epoch + 1),
        disks=(disk(3, 4, 6),),
        downs=(down(3, 4, 7),),
        final=row.replaced_under(3),
    )
    reasons = {one.guilt.reasons & NEVER_HAD_IT for one in ask(found, acks_all=False).histories}
    assert bool(max(reasons)) is may_never_have_had_it


@pytest.mark.parametrize(("at", "sent_s"), [(3, 0), (5, 2.5), (8, 3)])
def test_an_offset_was_appended_after_those_below_it_were_sent(at: int, sent_s: float) -> None:
    acked = sends((OTHER, 4, 1, 2.5, 2.6), (OTHER + 1, 3, 1, 2, 2.1), (OTHER + 2, 7, 1, 3, 3.1))
    found = partition(row.ALONE, sends=acked)
    assert found.epochs.sent_below(0, at) == ns(sent_s)


# Whether a request to enter the ISR may be from before the disk loss of its broker.


JOIN = 2
"""The state by which broker 2 enters the ISR, at 5 s; broker 1 leads since 1 s."""
SLACK_S = SLACK_NS / 1e9
ONCE = {"broker_events": (event(1, 0.5, 2, "registered"),)}
NEVER_SEEN = {"broker_events": ()}


@pytest.mark.parametrize(
    ("fields", "lost_at_s", "is_sure"),
    [
        # It registered again behind the loss, so its next process asked.
        ({}, [], True),
        (ONCE, [4], True),
        ({**ONCE, "downs": ()}, [4], True),
        ({**ONCE, "downs": (), "log_whole": False}, [4], False),
        (NEVER_SEEN, [4], False),
        # Without a registration in between, a process that is down asked before.
        ({**NEVER_SEEN, "downs": (down(2, 4, 8),)}, [4], True),
        ({**ONCE, "downs": (down(2, 4, 8),), "log_whole": False}, [4], True),
        ({"broker_events": (event(1, 4, 2, "registered"),)}, [4], True),
        ({**ONCE, "disks": (disk(2, 5),)}, [], True),
        ({**ONCE, "disks": (disk(2, 0.4), disk(3, 4), disk(2, 4.5))}, [4.5], True),
        # Nobody knows whether the loss was before the registration or behind it.
        (
            {**ONCE, "downs": (), "disks": (DiskLoss(broker=2, within=Span(first_ns=ns(0.4), last_ns=ns(0.6))),)},
            [0.4],
            False,
        ),
    ],
)
def test_the_losses_behind_a_request_ended_the_process_that_made_it(
    fields: dict[str, Any], lost_at_s: list[float], *, is_sure: bool
) -> None:
    losses, sure = row.stale_join(**fields).losses_since_request(2, JOIN)
    assert ([one.within.first_ns / 1e9 for one in losses], sure) == (lost_at_s, is_sure)


@pytest.mark.parametrize(
    ("fields", "may_be_stale"),
    [
        ({}, True),
        ({"rules": (rules(kip_903=True),)}, False),
        ({"rules": (rules(kip_903=None),)}, True),
        # A request from before KIP-903 was in force has no broker epochs that could be compared.
        ({"rules": (rules(kip_903=False), rules(19, 4.7, kip_903=True))}, True),
        ({"rules": (rules(kip_903=False), rules(0, 1, kip_903=True))}, True),
        ({"rules": (rules(kip_903=False), rules(-1, 0.5, kip_903=True))}, False),
        ({"rules": (rules(kip_903=True), rules(19, 4.7, kip_903=False))}, True),
        ({"rules": (rules(kip_903=True), rules(20, 5, kip_903=False))}, False),
        ({"disks": ()}, False),
        ({"disks": (), "steps_known": False}, True),
        ({"disks": (disk(3, 4),)}, False),
        # The controller refuses a request of an earlier leader epoch.
        ({"disks": (disk(2, 0.7),)}, False),
        ({"disks": (disk(2, 1 - SLACK_S),)}, True),
        ({"disks": (disk(2, 5.3),)}, False),
        ({"disks": (disk(2, 5 + SLACK_S),)}, True),
    ],
)
def test_a_stale_request_is_from_before_a_disk_loss_of_this_leader_epoch(
    fields: dict[str, Any], *, may_be_stale: bool
) -> None:
    assert row.stale_join(**fields).may_be_stale(2, 0, JOIN) is may_be_stale
