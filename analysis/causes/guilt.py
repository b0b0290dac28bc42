"""What a history blames, and the answer of the table of permission about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from analysis.causes.evidence import NEVER
from analysis.causes.intervals import CONTRADICTED
from analysis.causes.partition import EvidentPartition, Question
from analysis.causes.table import NEEDS, Condition, Permits, permits


class Guilt(NamedTuple):
    """The election that a history blames, with all that the table is asked about it.

    - `election` None: the metadata log lacks it. `is_first` False: an earlier election may be the guilty one.
    - `by_name`: an earlier election by name, which put the winner into the ISR, and by which it never led.
    - `reasons`: why the winner may have lacked the record, as a set of `intervals`; 0: nobody knows.
    - `disks_min`, `disks_max`: how many replicas' disks surely, and perhaps, had taken the record.
    """

    election: int | None = None
    is_first: bool = True
    by_name: int | None = None
    reasons: int = 0
    disks_min: int = 0
    disks_max: int = 0


def ask_table(partition: EvidentPartition, asked: Question, alike: Sequence[Guilt]) -> Permits:
    """Ask the table about one election that histories blame; a condition is met if all of them meet it."""
    at, reasons = alike[0].election, 0
    for guilt in alike:
        reasons |= guilt.reasons
    if at is None:
        facts: dict[Condition, bool | None] = {"never committed": not asked.committed}
        # Whatever the reason was, a record that was never committed may be lost so.
        return permits("any", reasons | CONTRADICTED, facts) or Permits(needs=frozenset({NEEDS["gap"]}))
    leaders, before = partition.leaders, partition.elections.states[at - 1]
    disks_min, disks_max = min(one.disks_min for one in alike), max(one.disks_max for one in alike)
    elr, offset = _elr_when_registered(partition, at), partition.elections.states[at].metadata_offset
    # A reason that asks for it arose at a join before, where epochs were not compared, or nobody knows.
    compared = [one.kip_903 for one in partition.evidence.rules if one.metadata_offset < offset]
    # Without the ELR, nobody is elected as the last known leader.
    is_beyond = _is_beyond(partition, asked, disks_min, disks_max) if leaders.rules(at).elr else None
    every = len(before.replicas)
    facts = {
        "never committed": not asked.committed,
        "unclean election allowed": leaders.is_unclean_allowed(at),
        "no live candidate passed over": leaders.is_nobody_passed_over(at),
        "beyond the tolerance of KIP-966": is_beyond,
        "within the tolerance of KIP-966": None if is_beyond is None else not is_beyond,
        "every replica's disk took it": _at_least(disks_min, disks_max, every, every),
        "the only ISR member": before.isr == (partition.elections.states[at].leader,)
        and all(_may_have_lost_it_as_member(partition, one) for one in alike),
        "no ELR": None if elr is None else not elr,
        "broker epochs not compared": True if False in compared else None,
    }
    found = permits(leaders.kind[at], reasons, facts)
    other = permits("last-known-leader", reasons, facts) if leaders.may_have_registered[at] else found
    return found if found == other else Permits(needs=found.needs | other.needs | {NEEDS["kind"]})


def _at_least(count_min: int, count_max: int, bound_min: int, bound_max: int) -> bool | None:
    """Whether a count is at least a bound; of both only a range is known."""
    return True if count_min >= bound_max else (None if count_max >= bound_min else False)


def _may_have_lost_it_as_member(partition: EvidentPartition, guilt: Guilt) -> bool:
    """Whether the winner's disk may have been lost in the ISR, and not before an election by name put it there."""
    if guilt.by_name is None:
        return True
    state = partition.elections.states[guilt.by_name]
    since_ns = state.at_ns - partition.liveness.slack
    losses = (one for one in partition.evidence.disks if one.broker == state.leader)
    return any(one.within.last_ns >= since_ns for one in losses)


def _elr_when_registered(partition: EvidentPartition, at: int) -> bool | None:
    """Return whether the ELR was on when the winner of an election registered last; None: not known.

    With the ELR on, a broker that registers after an unclean shutdown leaves the ISR by that.
    """
    state = partition.elections.states[at]
    registered, _ = partition.liveness.registrations_around(state.leader, state)
    return partition.leaders.rules_before((registered[-1] if registered else state).metadata_offset + 1).elr


def _is_beyond(partition: EvidentPartition, asked: Question, disks_min: int, disks_max: int) -> bool | None:
    """Whether at least min ISR disks lost the record; the min ISR is that of the time when it was committed."""
    slack, rules = partition.liveness.slack, partition.evidence.rules
    sent_ns = 0 if asked.may_be_older else asked.sent_ns - slack
    by_ns = min(asked.done_ns if asked.acks_all else NEVER, asked.read_ns) + slack
    began = [0, *(one.at_ns for one in rules[1:])]
    levels = [
        one.min_isr
        for one, first, end in zip(rules, began, [*began[1:], NEVER], strict=True)
        if first <= by_ns and sent_ns < end
    ]
    known = [one for one in levels if one is not None]
    return _at_least(disks_min, disks_max, min(known), max(known)) if known and known == levels else None
