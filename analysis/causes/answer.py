"""The answer to one question: what the worlds that fit the evidence agree on."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from analysis.causes.history import NEVER
from analysis.causes.partition import EvidentPartition, Question
from analysis.causes.possible_world import Guilt
from analysis.causes.table import NEEDS
from analysis.causes.worlds import WORLDS_MAX, TooManyWorlds, Walk
from ebbtide.record.verdict import Cause


class Trail(msgspec.Struct, frozen=True, order=True):
    """One way in which the record may have got lost, as the worlds tell it.

    - `writer`, `holder`: the election under which it was appended, and the last one whose leader had it.
    - `guilty`: the first election after that whose leader lacked it; None: a gap of the metadata log hides it.
    - `reasons`: why that leader may have lacked it, as a set of `intervals`.
    - `causes`, `needs`: what allows that, and what would have to be known; nothing in either: the protocol forbids it.
    """

    writer: int
    holder: int
    guilty: int | None
    reasons: int
    causes: tuple[Cause, ...]
    needs: tuple[str, ...]

    @property
    def is_forbidden(self) -> bool:
        """Whether the protocol forbids this way."""
        return not self.causes and not self.needs


class CauseAnswer(msgspec.Struct, frozen=True):
    """The cause of a loss, and the election that is guilty of it.

    - `cause` None: the evidence does not decide; `why` says what would.
    - `guilty`: the index of the guilty election; None: the worlds name several, or none.
    - `may_be_kept`: in some world every leader had the record.
    - `trails`: the ways that fit; forbidden ones only where no other fits.
    """

    cause: Cause | None
    guilty: int | None
    why: str
    may_be_kept: bool = False
    trails: tuple[Trail, ...] = ()

    @property
    def is_allowed(self) -> bool:
        """Whether every way that fits is allowed, by whatever cause."""
        return bool(self.trails) and not any(
            one.is_forbidden or one.needs or "unexplained" in one.causes for one in self.trails
        )


def answer(partition: EvidentPartition, asked: Question) -> CauseAnswer:
    """Return what the worlds of a record agree on."""
    trails, may_be_kept = set[Trail](), False
    try:
        for writer in asked.writers:
            for world in Walk(partition, asked, writer).worlds():
                guilt = world.guilt
                if guilt is None:
                    may_be_kept = True
                    if not partition.elections.torn or asked.until is not None:
                        continue
                    guilt = Guilt.hidden()
                causes, needs = tuple(sorted(guilt.permits.causes)), tuple(sorted(guilt.permits.needs))
                trails.add(Trail(writer, world.holder, guilt.election, guilt.reasons, causes, needs))
    except TooManyWorlds:
        return CauseAnswer(None, None, f"more than {WORLDS_MAX} histories fit the evidence")
    found = _merged(partition, asked, trails)
    return msgspec.structs.replace(found, may_be_kept=may_be_kept, trails=_sorted(found.trails))


def _merged(partition: EvidentPartition, asked: Question, trails: Collection[Trail]) -> CauseAnswer:
    allowed = {one for one in trails if not one.is_forbidden}
    fitting = allowed or set(trails)
    elections = {one.guilty for one in fitting}
    guilty = next(iter(elections)) if len(elections) == 1 else None
    kept = tuple(fitting)
    if not allowed:
        return _without_permission(partition, asked, guilty, kept)
    causes = {cause for one in allowed for cause in one.causes}
    needs = sorted({need for one in allowed for need in one.needs})
    if causes == {"beyond-tolerance", "last-replica-standing"} and guilty is not None:
        # That every disk took the record is not sure then.
        causes = {"last-replica-standing"}
    if "uncommitted-at-failover" in causes and not needs and "unexplained" not in causes:
        # It was committed in some worlds only, so nothing shows that it was.
        causes = {"uncommitted-at-failover"}
    if len(causes) == 1 and not needs:
        return CauseAnswer(min(causes), guilty, "", trails=kept)
    why = f"not known: {'; '.join(needs)}" if needs else f"{' and '.join(sorted(causes))} both fit"
    if len(elections) > 1 and not needs:
        why += "; not known: the leader epoch of the record, or what the leaders in question had at their election"
    return CauseAnswer(None, guilty, why, trails=kept)


def _without_permission(
    partition: EvidentPartition, asked: Question, guilty: int | None, trails: tuple[Trail, ...]
) -> CauseAnswer:
    """Return that the protocol forbids the loss, unless a gap of the metadata log may hide what allows it."""
    elections = partition.elections
    if not asked.writers:
        why = "no leader is known that may have appended the record"
        return CauseAnswer(None, None, why)
    if not trails and not partition.history.cluster.steps_known:
        return CauseAnswer(None, None, f"not known: {NEEDS['steps']}")
    if not trails and not asked.is_committed and elections.states[-1].leader not in partition.history.replicas:
        # The final read ends at the HW, so the record may still be in the log.
        return CauseAnswer(None, None, f"not known: {NEEDS['log']}")
    slack = partition.liveness.slack
    if asked.read_ns == NEVER and elections.hides_one_within(asked.sent_ns - slack, asked.done_ns + slack):
        # A hidden leader may have appended the record.
        return CauseAnswer(None, None, f"not known: {NEEDS['gap']}", trails=trails)
    since = asked.writers[0] if len(asked.writers) == 1 else -1
    # A gap behind the election that surely lost the record hides no excuse of it.
    if elections.has_gap_since(since + 1) if guilty is None else elections.has_gap_between(since, guilty):
        cause: Cause | None = None if asked.is_committed else "uncommitted-at-failover"
        return CauseAnswer(cause, None, f"not known: {NEEDS['gap']}", trails=trails)
    return CauseAnswer("unexplained", guilty, "no history that fits allows it", trails=trails)


def _sorted(trails: Collection[Trail]) -> tuple[Trail, ...]:
    return tuple(sorted(trails, key=lambda one: (one.writer, one.holder, one.guilty or -1, one.reasons)))
