"""The answer to one question: what the histories that fit the evidence agree on."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import msgspec

from analysis.causes.evidence import NEVER
from analysis.causes.histories import HISTORIES_MAX, Guilt, TooManyHistories, Walk
from analysis.causes.intervals import CONTRADICTED, STATES
from analysis.causes.partition import EvidentPartition, Question
from analysis.causes.table import NEEDS, Condition, Permits, permits
from ebbtide.record.verdict import Cause

HIDDEN = -1
"""Stands for an election that a gap of the metadata log hides."""


class LossHistory(msgspec.Struct, frozen=True):
    """One history in which the record got lost.

    - `writer`, `holder`: the election under which it was appended, and the last one whose leader had it; `HIDDEN`:
      not known, a gap hides it.
    - `guilt`: the first election after that whose leader lacked it, and why.
    - `permits`: what allows that; nothing: the protocol forbids this history.
    """

    writer: int
    holder: int
    guilt: Guilt
    permits: Permits = Permits()

    @property
    def guilty(self) -> int | None:
        """The guilty election; None: the metadata log lacks it, or it may be an earlier one."""
        return self.guilt.election if self.guilt.is_first else None

    @property
    def causes(self) -> frozenset[Cause]:
        """The causes that allow it, as far as they are known; `unexplained`: nothing does."""
        return self.permits.causes if self.permits else frozenset[Cause]({"unexplained"})


class CauseAnswer(msgspec.Struct, frozen=True):
    """The cause of a loss, and the election that is guilty of it.

    - `cause` None: the evidence does not decide; `why` says what would.
    - `guilty`: the index of the guilty election; None: the histories name several, or none.
    - `may_be_kept`: in some history every leader had the record.
    - `histories`: those that fit; forbidden ones only where no other fits, or where they blame an unclean election that
      was not allowed.
    """

    cause: Cause | None
    guilty: int | None
    why: str
    may_be_kept: bool = False
    histories: tuple[LossHistory, ...] = ()

    @property
    def holder(self) -> int | None:
        """The last election whose leader had the record; None: not known."""
        holders = {one.holder for one in self.histories}
        return min(holders) if len(holders) == 1 and HIDDEN not in holders else None

    @property
    def is_allowed(self) -> bool:
        """Whether every history that fits is allowed, by whatever cause."""
        return bool(self.histories) and all(one.permits.may_excuse and not one.permits.needs for one in self.histories)


def answer(partition: EvidentPartition, asked: Question) -> CauseAnswer:
    """Return what the histories of a record agree on."""
    found, may_be_kept = set[LossHistory](), False
    if not asked.is_epoch_known and partition.elections.hides_one_before(asked.done_ns + partition.liveness.slack):
        found.add(LossHistory(HIDDEN, HIDDEN, Guilt()))
    try:
        for writer in asked.writers:
            for end in Walk(partition, asked, writer).histories():
                may_be_kept |= end.guilt is None
                if end.guilt is not None:
                    found.add(LossHistory(writer, end.holder, end.guilt))
    except TooManyHistories:
        return CauseAnswer(None, None, f"more than {HISTORIES_MAX} histories fit the evidence")
    blamed = {one.guilt.election for one in found}
    found = {after for one in found for after in _with_permits(partition, asked, one, blamed)}
    fitting = _agreed(partition, asked, [one for one in found if _is_likely(partition, one)] or found)
    return msgspec.structs.replace(_answer(partition, asked, fitting), may_be_kept=may_be_kept, histories=fitting)


def _is_likely(partition: EvidentPartition, one: LossHistory) -> bool:
    """Whether a history is looked at beside others: what the protocol forbids is not, unless it happened for certain.

    An unclean election that was not allowed breaks the protocol whatever its winner had.
    """
    at = one.guilt.election
    is_certain = at is not None and partition.leaders.kind[at] == "unclean" and not one.guilt.reasons & CONTRADICTED
    return bool(one.permits) or is_certain


def _with_permits(
    partition: EvidentPartition, asked: Question, one: LossHistory, blamed: Collection[int | None]
) -> Iterator[LossHistory]:
    """Yield a history with what allows it.

    Where nothing allows that the winner of a clean election lacks the record, an earlier election by name may: it put
    the broker into the ISR. If other histories blame that election anyway, this one does so too, and they agree.
    """
    guilt = one.guilt

    def asking(guilt: Guilt) -> LossHistory:
        return msgspec.structs.replace(one, guilt=guilt, permits=_ask_table(partition, asked, [guilt]))

    if guilt.by_name is None or not asked.committed:
        yield asking(guilt)
        return
    earlier = asking(guilt._replace(election=guilt.by_name, is_first=True))
    # What the winner lost before an election that was not allowed, no later election excuses.
    later = guilt._replace(by_name=None) if earlier.permits else guilt
    excuses = [asking(later._replace(reasons=reason)).permits.may_excuse for reason in STATES if reason & guilt.reasons]
    blames_earlier = bool(earlier.permits) and (guilt.by_name in blamed or not all(excuses))
    if blames_earlier:
        yield earlier
    # Both count where the earlier one broke what KIP-966 promises, and the later one may be allowed.
    if not blames_earlier or (any(excuses) and not earlier.permits.may_excuse):
        yield asking(later)


def _agreed(
    partition: EvidentPartition, asked: Question, histories: Collection[LossHistory]
) -> tuple[LossHistory, ...]:
    """Return the histories with what allows their elections, by what all of them show alike."""
    order = sorted(histories, key=lambda one: (one.writer, one.holder, one.guilty or -1, one.guilt.reasons))
    alike: dict[int | None, list[Guilt]] = {}
    for one in order:
        alike.setdefault(one.guilt.election, []).append(one.guilt)
    permitted = {at: _ask_table(partition, asked, of) for at, of in alike.items()}
    return tuple(msgspec.structs.replace(one, permits=permitted[one.guilt.election]) for one in order)


def _answer(partition: EvidentPartition, asked: Question, fitting: Sequence[LossHistory]) -> CauseAnswer:
    elections = {one.guilty for one in fitting}
    guilty = next(iter(elections)) if len(elections) == 1 else None
    causes = {cause for one in fitting for cause in one.causes}
    needs = sorted({need for one in fitting for need in one.permits.needs})
    if not any(one.permits for one in fitting):
        return _without_permission(partition, asked, guilty, fitting)
    if len(causes) == 1 and not needs:
        return CauseAnswer(min(causes), guilty, "")
    why = f"not known: {'; '.join(needs)}" if needs else f"{' and '.join(sorted(causes))} both fit"
    if len(elections) > 1 and not needs:
        why += "; not known: the leader epoch of the record, or what the leaders in question had at their election"
    return CauseAnswer(None, guilty, why)


def _without_permission(
    partition: EvidentPartition, asked: Question, guilty: int | None, fitting: Sequence[LossHistory]
) -> CauseAnswer:
    """Return that the protocol forbids the loss, unless something that is not known may allow it."""
    elections = partition.elections
    if not asked.writers:
        return CauseAnswer(None, None, "no leader is known that may have appended the record")
    if not fitting and not partition.evidence.cluster.steps_known:
        return CauseAnswer(None, None, f"not known: {NEEDS['steps']}")
    if not asked.committed and elections.states[-1].leader not in partition.evidence.replicas:
        # The final read ends at the HW, so the record may still be in the log.
        return CauseAnswer(None, None, f"not known: {NEEDS['log']}")
    since = -1
    if len(asked.writers) == 1:
        # What is missing right before the election may have come after the append.
        writer = asked.writers[0]
        since = writer - (asked.sent_ns < elections.states[writer].at_ns + partition.liveness.slack)
    # A gap behind the election that surely lost the record hides no excuse of it.
    if elections.has_gap_between(since, NEVER if guilty is None else guilty):
        cause: Cause | None = None if asked.committed else "uncommitted-at-failover"
        return CauseAnswer(cause, None, f"not known: {NEEDS['gap']}")
    return CauseAnswer("unexplained", guilty, "no history that fits allows it")


def _ask_table(partition: EvidentPartition, asked: Question, alike: Sequence[Guilt]) -> Permits:
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
