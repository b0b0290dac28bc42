"""Asks the table for one election: the facts that hold for it in one world."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.causes.intervals import DISK_TOOK_IT, UNRECORDED_LOSS
from analysis.causes.partition import EvidentPartition, Question
from analysis.causes.table import NEEDS, Condition, Permits, permits


def permits_of(
    partition: EvidentPartition, asked: Question, at: int, reasons: int, sets: Sequence[int], *, is_committed: bool
) -> Permits:
    """Return what allows that the winner of an election lacks a record for these reasons.

    `sets`: what the replicas before the election may hold.
    """
    leaders, states = partition.leaders, partition.elections.states
    before, after, rules = states[at - 1], states[at], leaders.rules(at)
    elr, is_beyond = partition.elr_when_registered(at), _is_beyond_tolerance(partition, asked, at, sets)
    surely = all(one == DISK_TOOK_IT for one in sets)
    facts: dict[Condition, bool | None] = {
        "never committed": not is_committed,
        "unclean election allowed": leaders.is_unclean_allowed(at),
        "no live candidate passed over": leaders.is_nobody_passed_over(at),
        "beyond the tolerance of KIP-966": is_beyond,
        "within the tolerance of KIP-966": None if is_beyond is None else not is_beyond,
        "every replica's disk took it": None if all(one & DISK_TOOK_IT for one in sets) and not surely else surely,
        "the only ISR member": before.isr == (after.leader,),
        "no ELR": None if elr is None else not elr,
        "broker epochs not compared": None if rules.kip_903 is None else not rules.kip_903,
    }
    found = permits(leaders.kind[at], reasons, facts)
    other = permits("last-known-leader", reasons, facts) if leaders.may_have_registered[at] else found
    return found if found == other else Permits(needs=found.needs | other.needs | {NEEDS["kind"]})


def _is_beyond_tolerance(partition: EvidentPartition, asked: Question, at: int, sets: Sequence[int]) -> bool | None:
    """Whether as many disks took this record as there was min ISR when it was committed; None: not known."""
    if not partition.leaders.rules(at).elr:
        return partition.leaders.rules(at).elr
    surely = sum(one == DISK_TOOK_IT for one in sets)
    perhaps = sum(bool(one & (DISK_TOOK_IT | UNRECORDED_LOSS)) for one in sets)
    lowest, highest = partition.min_isr_range(asked)
    if highest is not None and surely >= highest:
        return True
    return False if lowest is not None and perhaps < lowest else None
