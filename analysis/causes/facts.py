"""What is known of an election that histories blame: the conditions of the table."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.causes.evidence import NEVER
from analysis.causes.histories import Guilt
from analysis.causes.intervals import CONTRADICTED
from analysis.causes.partition import EvidentPartition, Question
from analysis.causes.table import NEEDS, Condition, Permits, permits


def ask_table(partition: EvidentPartition, asked: Question, alike: Sequence[Guilt], *, is_committed: bool) -> Permits:
    """Ask the table about one election that histories blame; a condition is met if all of them meet it."""
    at, reasons = alike[0].election, 0
    for guilt in alike:
        reasons |= guilt.reasons
    if at is None:
        facts: dict[Condition, bool | None] = {"never committed": not is_committed}
        # Whatever the reason was, a record that was never committed may be lost so.
        return permits("any", reasons | CONTRADICTED, facts) or Permits(needs=frozenset({NEEDS["gap"]}))
    leaders, before = partition.leaders, partition.elections.states[at - 1]
    disks_min, disks_max = min(one.disks_min for one in alike), max(one.disks_max for one in alike)
    elr, offset = _elr_when_registered(partition, at), partition.elections.states[at].metadata_offset
    # The join was earlier, maybe under an older metadata.version.
    compared = {one.kip_903 for one in partition.evidence.rules if one.metadata_offset < offset}
    compared = compared or {leaders.rules(at).kip_903}
    min_isr, min_isr_max = _min_isr_range(partition, asked)
    is_beyond = leaders.rules(at).elr
    if is_beyond:
        is_beyond = _at_least(disks_min, disks_max, min_isr, min_isr_max)
    every = len(before.replicas)
    facts = {
        "never committed": not is_committed,
        "unclean election allowed": leaders.is_unclean_allowed(at),
        "no live candidate passed over": leaders.is_nobody_passed_over(at),
        "beyond the tolerance of KIP-966": is_beyond,
        "within the tolerance of KIP-966": None if is_beyond is None else not is_beyond,
        "every replica's disk took it": _at_least(disks_min, disks_max, every, every),
        "the only ISR member": before.isr == (partition.elections.states[at].leader,),
        "no ELR": None if elr is None else not elr,
        "broker epochs not compared": True if False in compared else (None if None in compared else False),
    }
    found = permits(leaders.kind[at], reasons, facts)
    other = permits("last-known-leader", reasons, facts) if leaders.may_have_registered[at] else found
    return found if found == other else Permits(needs=found.needs | other.needs | {NEEDS["kind"]})


def _at_least(count_min: int, count_max: int, bound_min: int | None, bound_max: int | None) -> bool | None:
    """Whether a count is at least a bound; of both only a range is known."""
    if bound_min is None or bound_max is None:
        return None
    return True if count_min >= bound_max else (None if count_max >= bound_min else False)


def _elr_when_registered(partition: EvidentPartition, at: int) -> bool | None:
    """Return whether the ELR was on when the winner of an election registered last; None: not known.

    With the ELR on, a broker that registers after an unclean shutdown leaves the ISR by that.
    """
    state = partition.elections.states[at]
    registered, _ = partition.liveness.registrations_around(state.leader, state)
    return partition.leaders.rules_before((registered[-1] if registered else state).metadata_offset + 1).elr


def _min_isr_range(partition: EvidentPartition, asked: Question) -> tuple[int | None, int | None]:
    """Return the lowest and the highest min ISR that may have held when the record was committed."""
    slack, rules = partition.liveness.slack, partition.evidence.rules
    sent_ns = 0 if asked.may_be_older else asked.sent_ns - slack
    by_ns = min(asked.done_ns if asked.acks_all else NEVER, asked.read_ns) + slack
    before = [one for one in rules if one.at_ns <= sent_ns][-1:] or rules[:1]
    within = [one for one in rules if sent_ns < one.at_ns <= by_ns]
    levels = [one.min_isr for one in (*before, *within)]
    known = [one for one in levels if one is not None]
    return (None, None) if len(known) < len(levels) or not known else (min(known), max(known))
