"""The answer to one question: what the histories that fit the evidence agree on."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import msgspec

from analysis.causes.evidence import NEVER
from analysis.causes.guilt import Guilt, ask_table
from analysis.causes.histories import HISTORIES_MAX, TooManyHistories, Walk
from analysis.causes.intervals import CONTRADICTED, STATES
from analysis.causes.partition import EvidentPartition, Question
from analysis.causes.table import NEEDS, Permits
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
        return msgspec.structs.replace(one, guilt=guilt, permits=ask_table(partition, asked, [guilt]))

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
    permitted = {at: ask_table(partition, asked, of) for at, of in alike.items()}
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
