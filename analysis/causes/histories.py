"""Which histories of one record fit the evidence, and the election that each of them blames.

A history fixes what the evidence leaves open: who wrote the record, whether an elected broker led, and whether a leader
had the record. Where the evidence gives no order, it also fixes whether a disk was lost before an election, and whether
a gap hides an election. Equal histories are merged after each moment, so their number stays small. The guilty election
of a history is the first leader without the record behind the last leader with it. Guilt goes by the order of the
metadata log, not by the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from analysis.causes.evidence import NEVER, DiskLoss
from analysis.causes.guilt import Guilt, ask_table
from analysis.causes.intervals import (
    CONTRADICTED,
    DISK_TOOK_IT,
    HAS_IT,
    NEVER_HAD_IT,
    UNRECORDED_LOSS,
    Sets,
    after_commit,
    after_disk,
    after_gap,
    after_join,
    after_restart,
    at_measured_end,
    lacking,
    while_following,
)
from analysis.causes.moments import PartitionMoment
from analysis.causes.partition import EvidentPartition, Question

HISTORIES_MAX = 10_000


class TooManyHistories(Exception):
    """More histories fit than are looked at."""


class History(NamedTuple):
    """One history of a record up to a moment.

    - `sets`: what each replica may hold.
    - `holder`: the last election whose leader had the record.
    - `leader`: the election of the broker that leads now; None: nobody leads, or it is not known who.
    - `lost_early`: the disk losses that have happened although they may come later.
    - `may_differ`: logs may have another record at its offset, because a leader before or behind the writer lacked it.
    """

    sets: Sets
    holder: int
    leader: int | None
    guilt: Guilt | None = None
    lost_early: frozenset[int] = frozenset()
    may_differ: bool = False

    @property
    def has_it(self) -> bool:
        """Whether the broker that leads now was elected with the record."""
        return self.leader == self.holder


class Walk:
    """The walk through the moments of a partition, for one record and the election under which it was written."""

    def __init__(self, partition: EvidentPartition, asked: Question, writer: int) -> None:
        self._partition, self._asked, self._writer = partition, asked, writer
        self._elections, self._states = partition.elections, partition.elections.states
        self._leaders, self._liveness, self._slack = partition.leaders, partition.liveness, partition.liveness.slack
        self._place = {broker: place for place, broker in enumerate(partition.elections.brokers)}
        self._leadership = partition.elections.of_leadership(writer)
        self._committed_ns = {at: self._committed_by(at) for at in partition.elections.all}

    def histories(self) -> frozenset[History]:
        """Return the histories at the end."""
        found, latest = frozenset({self._begin()}), self._writer
        for moment in self._moments():
            narrowed = {self._narrow(one, moment, latest) for one in found}
            found = frozenset(after for one in narrowed for after in self._step(one, moment, latest))
            if len(found) > HISTORIES_MAX:
                raise TooManyHistories
            if moment.what == "state":
                latest = moment.which
                if latest == self._asked.until:
                    return found
        found = frozenset(end for one in found for end in self._end(one))
        if self._elections.torn:
            # The last record that is known need not be the last election.
            return frozenset(after for one in found for after in self._pass_last(one))
        return found

    def _moments(self) -> Sequence[PartitionMoment]:
        """Return the moments from the writer's election on.

        Where the record that elected it is missing, that may have been before what stands right before its state.
        """
        moments = self._partition.moments
        begin = next(at for at, one in enumerate(moments) if (one.what, one.which) == ("state", self._writer))
        while self._elections.gap[self._writer] and begin and moments[begin - 1].what != "state":
            begin -= 1
        return moments[begin:]

    def _begin(self) -> History:
        return History(
            sets=tuple(map(self._at_first, self._place)),
            holder=self._writer,
            leader=self._writer,
            may_differ=self._elections.leadership[self._writer] != self._elections.all[0],
        )

    def _changed(self, one: History, brokers: Iterable[int], rule: Callable[[int], int]) -> History:
        """Return the history after a rule of `intervals` changed what these brokers may hold."""
        sets = list(one.sets)
        for broker in brokers:
            sets[self._place[broker]] = rule(sets[self._place[broker]])
        return one._replace(sets=tuple(sets))

    # ---- what members of the ISR surely hold by a moment

    def _narrow(self, one: History, moment: PartitionMoment, latest: int) -> History:
        """Narrow the sets by what was committed before the moment, in the state `latest`."""
        is_committed = one.has_it and self._committed_ns[one.holder] + self._slack <= moment.at_ns
        return self._changed(one, self._states[latest].isr, after_commit) if is_committed else one

    def _at_first(self, broker: int) -> int:
        """Return what a replica may hold of the record when the leader of the writer's election has it."""
        began, evidence = self._states[self._writer], self._partition.evidence
        if broker == began.leader:
            return HAS_IT
        if not self._asked.may_be_older:
            return HAS_IT | NEVER_HAD_IT if self._elections.gap[self._writer] else NEVER_HAD_IT
        found = HAS_IT | NEVER_HAD_IT | (0 if evidence.cluster.steps_known else UNRECORDED_LOSS)
        for disk in evidence.disks:
            if disk.broker == broker and disk.within.first_ns <= began.at_ns + self._slack:
                found |= after_disk(found, self._asked.offset, disk.ends)
        return found

    def _committed_by(self, at: int) -> int:
        """Return the time by which the record was committed under an election, if its leader had the record."""
        asked = self._asked
        shown = self._partition.epochs.of[at].committed.by(asked.offset)
        return min(shown, asked.read_ns, asked.done_ns if asked.acks_all else NEVER)

    def _may_be_there(self, at_ns: int) -> bool:
        """Whether the record may have been sent by a time of the metadata log."""
        return at_ns + self._slack >= self._asked.sent_ns

    # ---- the moments

    def _step(self, one: History, moment: PartitionMoment, latest: int) -> Iterator[History]:
        if moment.what == "restart":
            yield self._changed(one, [moment.which] if self._may_be_there(moment.at_ns) else [], after_restart)
        elif moment.what == "disk":
            disk = self._partition.evidence.disks[moment.which]
            for after in self._lose_disk(one, moment, disk, latest):
                # What it fetched before its disk was lost is lost, too.
                yield self._fetch(after, latest, disk.within.last_ns, {disk.broker})
        elif moment.which == self._writer:
            yield self._follow(one, moment.which)
        else:
            for after in self._change_leader(one, moment.which):
                yield self._follow(after, moment.which)

    def _end(self, one: History) -> Iterator[History]:
        """Yield the histories at the end: the disk of the last leader may have taken the record without an election.

        A broker that registers right after its session ended, and before the controller fences it, leads on.
        """
        found = HAS_IT if one.leader is None else one.sets[self._place[self._states[one.leader].leader]]
        taken = 0 if one.guilt else found & (DISK_TOOK_IT | UNRECORDED_LOSS)
        if not taken or found & HAS_IT:
            yield one
        if taken:
            yield one._replace(guilt=Guilt(reasons=taken))

    def _lose_disk(self, one: History, moment: PartitionMoment, disk: DiskLoss, latest: int) -> Iterator[History]:
        """Yield the histories in which the disk was lost by now, and, before its last moment, will be lost later."""
        if moment.which in one.lost_early:
            yield one._replace(lost_early=one.lost_early - {moment.which}) if moment.is_last else one
            return
        if not moment.is_last:
            yield one

        def lose(found: int) -> int:
            # Where the next state lacks its record, a leader without the record may have led by now.
            if disk.ends is not None and not one.may_differ and not self._elections.gap[latest + 1]:
                found = at_measured_end(found, self._asked.offset, disk.ends)
            return self._after_loss(found, disk)

        lost_early = one.lost_early if moment.is_last else one.lost_early | {moment.which}
        yield self._changed(one, [disk.broker], lose)._replace(lost_early=lost_early)

    def _down(self, one: History) -> set[int]:
        """Return the brokers that lost their disk early: they are down as long as that may have come later, too."""
        stays_down = self._partition.stays_down
        return {self._partition.evidence.disks[which].broker for which in one.lost_early if stays_down[which]}

    def _after_loss(self, found: int, disk: DiskLoss) -> int:
        """Return what a replica may hold after a disk loss, which took nothing that was sent later."""
        # Clients and steps have one clock.
        was_before = disk.within.last_ns < self._asked.sent_ns
        return found if was_before else after_disk(found, self._asked.offset, disk.ends)

    # ---- elections

    def _change_leader(self, one: History, at: int) -> Iterator[History]:
        """Yield the histories once the record of state `at` was written, before replicas follow the new leader."""
        for before in self._pass_hidden(one) if self._elections.hides[at] else [one]:
            if self._states[at].leader == -1:
                yield before._replace(leader=None)
            elif self._elections.is_election(at):
                yield from self._elect(self._join(before, at), at)
            else:
                yield self._join(before, at)

    def _pass_last(self, one: History) -> Iterator[History]:
        """Yield the histories behind elections of which the records are missing at the end."""
        if one.guilt is None or self._partition.epochs.may_end_later(2):
            yield from (after._replace(guilt=after.guilt or Guilt()) for after in self._pass_hidden(one))
        else:
            # To bring the record back and to lose it again takes two elections.
            yield one

    def _pass_hidden(self, one: History) -> set[History]:
        """Return the histories behind elections that a gap hides: their leaders had the record, or lacked it."""
        is_gone = not any(found & HAS_IT for found in one.sets)
        one = one._replace(leader=None, may_differ=True)
        if is_gone:
            return {one._replace(guilt=one.guilt or Guilt())}
        one = one._replace(sets=tuple(map(after_gap, one.sets)))
        return {one._replace(guilt=one.guilt or Guilt()), one._replace(guilt=self._guilt_after_return(one))}

    def _elect(self, one: History, at: int) -> Iterator[History]:
        """Yield the histories in which the winner did not lead, led with the record, or led without it."""
        asked, elections, winner = self._asked, self._elections, self._states[at].leader
        led, first, found = self._leaders.led[at], elections.leadership[at], one.sets[self._place[winner]]
        if not led:
            yield one._replace(leader=None)
        if led is False or winner in self._down(one):
            return
        had = self._partition.epochs.had(at, asked.value, asked.offset, self._writer)
        if had is not False and found & HAS_IT:
            yield self._lead_with_it(one, at, winner)
        # The log of a leader only grows.
        is_same_log = elections.leadership[one.holder] == first
        if had is True or is_same_log:
            return
        if found & ~HAS_IT or had is False:
            after = self._changed(one, [winner], lacking)
            yield after._replace(guilt=one.guilt or self._guilt(after, at, lacking(found)), leader=at, may_differ=True)

    def _lead_with_it(self, one: History, at: int, winner: int) -> History:
        after = self._changed(one, [winner], lambda _: HAS_IT)
        return after._replace(holder=at, leader=at, guilt=self._guilt_after_return(one))

    def _guilt_after_return(self, one: History) -> Guilt | None:
        """Return the guilt that is left once the record came back.

        A leader broke the protocol if it lacked a record that was committed before, and nothing may allow that.
        It stays guilty, whatever became of the record later.
        """
        guilt = one.guilt
        if guilt is None or guilt.reasons == CONTRADICTED:
            return guilt
        if guilt.election is None or guilt.by_name is not None:
            return None
        was_committed = self._committed_ns[one.holder] + self._slack <= self._states[guilt.election].at_ns
        return guilt if was_committed and not ask_table(self._partition, self._asked, [guilt]) else None

    def _guilt(self, one: History, at: int, reasons: int) -> Guilt:
        """Return what a history blames in which the winner of an election lacks the record for these reasons."""
        if self._elections.gap[at]:
            return Guilt(reasons=reasons)
        before = [one.sets[self._place[broker]] for broker in self._states[at - 1].replicas]
        return Guilt(
            election=at,
            # A replica that lacks what it must have may have lacked it at an earlier election.
            is_first=not reasons & CONTRADICTED or one.holder in self._leadership,
            by_name=self._leaders.by_name_before(at, one.holder),
            reasons=reasons,
            disks_min=sum(found == DISK_TOOK_IT for found in before),
            disks_max=sum(bool(found & (DISK_TOOK_IT | UNRECORDED_LOSS)) for found in before),
        )

    # ---- what followers may lose, and what they get

    def _follow(self, one: History, at: int) -> History:
        """Let replicas follow the leader from a state until the next one."""
        return self._fetch(one, at, self._leaders.began_ns[at], self._states[at].replicas)

    def _join(self, one: History, at: int) -> History:
        """Let brokers enter the ISR by the record of a state."""
        if one.leader is not None and self._may_be_there(self._states[at].at_ns):
            for broker in self._leaders.joins(at):
                one = self._changed(one, [broker], partial(self._after_join, one, broker, at))
        return one

    def _after_join(self, one: History, broker: int, at: int, found: int) -> int:
        """Return what a broker may hold that entered the ISR by the record of a state."""
        assert one.leader is not None
        join = partial(after_join, leader_has_it=one.has_it)
        losses, is_sure = self._partition.losses_since_request(broker, at)
        is_stale = self._partition.may_be_stale(broker, one.leader, at)
        by_living = 0 if losses and is_sure and not is_stale else join(found, may_be_stale=is_stale)
        by_dead = join(found, may_be_stale=False) if losses else 0
        for disk in losses:
            by_dead = self._after_loss(by_dead, disk)
        return by_living | by_dead

    def _fetch(self, one: History, at: int, since_ns: int, brokers: Iterable[int]) -> History:
        """Let replicas follow the leader from a time until the state behind `at`, both by the clock of the steps."""
        state = self._states[at]
        if one.leader is None:
            return one
        # A leader that died serves no more fetches before it registers again.
        until_ns = min(self._elections.time(at + 1) + self._slack, self._leaders.dead_ns[at])
        # A leader that does not know yet that it was deposed serves fetches of those that do not know it, either.
        acted_ns = self._leaders.acted_until[one.leader] + self._slack
        followers = set(brokers).intersection(state.replicas) - self._down(one)
        unaware = followers if self._asked.sent_ns > until_ns else self._leaders.unaware[at]
        untils = {broker: acted_ns if broker in unaware else until_ns for broker in followers}
        fetching = [
            broker for broker, until in untils.items() if self._may_fetch(broker, state.leader, since_ns, until)
        ]
        return self._follow_leader(one, fetching)

    def _may_fetch(self, broker: int, leader: int, since_ns: int, until_ns: int) -> bool:
        """Whether a broker may have fetched the record within these times."""
        since_ns, until_ns = max(self._asked.sent_ns, since_ns), min(NEVER, until_ns)
        is_asked = broker != leader and since_ns <= until_ns
        return is_asked and not self._liveness.is_silent(broker, leader, since_ns, until_ns)

    def _follow_leader(self, one: History, brokers: Iterable[int]) -> History:
        return self._changed(one, brokers, lambda found: while_following(found, leader_has_it=one.has_it))
