"""Which histories of one record fit the evidence: the worlds, and the election that each of them blames.

A world fixes what the evidence leaves open: who wrote the record, whether an elected broker led, and whether a leader
had the record. Where the evidence gives no order, it also fixes whether a disk was lost before an election, whether a
gap hides an election, and under which leader consumers were served the record. Equal worlds are merged after each
moment, so they do not grow without bound. The guilty election of a world is the first leader without the record behind
the last leader with it; the table of permission is read at that moment. Guilt goes by the order of the metadata log,
not by the clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from analysis.causes.history import NEVER, DiskLoss
from analysis.causes.intervals import (
    CONTRADICTED,
    DISK_TOOK_IT,
    HAS_IT,
    NEVER_HAD_IT,
    STATES,
    UNRECORDED_LOSS,
    Sets,
    after_catching_up,
    after_commit,
    after_disk,
    after_gap,
    after_join,
    after_restart,
    at_measured_end,
    before_disk,
    lacking,
    while_following,
    with_set,
)
from analysis.causes.liveness import LEARNS_NS
from analysis.causes.moments import PartitionMoment
from analysis.causes.partition import EvidentPartition, Question
from analysis.causes.permission import permits_of
from analysis.causes.possible_world import Guilt, PossibleWorld
from analysis.causes.table import NEEDS, Permits, permits

WORLDS_MAX = 10_000


class TooManyWorlds(Exception):
    """More worlds fit than are looked at."""


class Walk:
    """The walk through the moments for one record and one writer."""

    def __init__(self, partition: EvidentPartition, asked: Question, writer: int) -> None:
        self._of, self._asked, self._writer = partition, asked, writer
        self._elections, self._states = partition.elections, partition.elections.states
        self._place = {broker: place for place, broker in enumerate(partition.elections.brokers)}
        self._leadership = partition.elections.of_leadership(writer)
        self._committed_ns = {at: self._committed_by(at) for at in partition.elections.all}

    def worlds(self) -> frozenset[PossibleWorld]:
        """Return the worlds at the end."""
        leader = self._place[self._states[self._writer].leader]
        others = HAS_IT | NEVER_HAD_IT if self._asked.may_be_older else NEVER_HAD_IT
        evidence = self._of.epochs.of[self._writer]
        offset = self._asked.offset
        shown = evidence.hw_max > offset or evidence.read_max >= offset
        found = {
            PossibleWorld(
                sets=tuple(HAS_IT if place == leader else others for place in range(len(self._place))),
                holder=self._writer,
                guilt=None,
                is_committed=self._asked.is_committed or shown,
                leader=self._writer,
                has_it=True,
                is_unserved=self._asked.read_ns < NEVER,
            )
        }
        begun, latest = False, self._writer
        for moment in self._of.moments:
            is_state = moment.what == "state"
            begun = begun or (is_state and moment.which == self._writer)
            if not begun:
                continue
            if self._asked.until is not None and is_state and moment.which > self._asked.until:
                break
            risen = [self._rise(world, moment, latest) for world in found]
            found = {after for world in risen for after in self._step(world, moment, latest)}
            if len(found) > WORLDS_MAX:
                raise TooManyWorlds
            latest = moment.which if is_state else latest
        if self._asked.until is not None:
            return frozenset(found)
        # A leader that lacks the record serves it to nobody.
        ends = (end for world in found for end in self._end(world))
        return frozenset(end for end in ends if not (end.guilt and end.is_unserved))

    def _committed_by(self, at: int) -> int:
        """Return the time by which the record was committed under an election, if its leader had the record."""
        asked, evidence = self._asked, self._of.epochs.of[at]
        found = evidence.committed.by(asked.offset)
        if at in self._leadership and asked.acks_all:
            found = min(found, asked.done_ns)
        if at == self._writer and asked.read_ns < self._elections.end_ns[at]:
            found = min(found, asked.read_ns)
        return found

    # ---- the floor: what members of the ISR surely hold by a moment

    def _rise(self, world: PossibleWorld, moment: PartitionMoment, latest: int) -> PossibleWorld:
        """Narrow the sets by what was committed before the moment, in the state `latest`."""
        at = world.leader
        if at is None or self._elections.is_lacking_after(latest):
            return world
        sets, slack = list(world.sets), self._of.liveness.slack
        leader, members = self._states[latest].leader, self._states[latest].isr
        if self._of.history.cluster.steps_known:
            for broker in members:
                place = self._place[broker]
                is_open = sets[place] & ~HAS_IT if world.has_it else sets[place] & HAS_IT
                if broker == leader or not is_open:
                    continue
                reached = self._of.caught_up_to(latest, at, broker, moment.at_ns)
                if reached > (self._asked.offset if world.has_it else -1):
                    sets[place] = after_catching_up(sets[place], leader_has_it=world.has_it)
        world = world._replace(sets=tuple(sets))
        if not world.has_it:
            return world
        if self._committed_ns[at] + slack <= moment.at_ns:
            return self._commit(world, members)
        if moment.what == "state" and self._states[moment.which].leader_epoch > self._states[at].leader_epoch:
            world = self._fetch_from_deposed(world, at, moment.at_ns)
        return self._commit_since_send(world, at) if self._ends_leadership(at, moment) else world

    def _fetch_from_deposed(self, world: PossibleWorld, at: int, deposed_ns: int) -> PossibleWorld:
        """Let replicas fetch the record from a leader that does not know yet that it leads no more, as they do not."""
        liveness, sets, leader = self._of.liveness, list(world.sets), self._states[at].leader
        since_ns = max(self._asked.sent_ns, deposed_ns - liveness.slack)
        for broker in set(self._states[at].replicas) - {leader}:
            until_ns = self._of.leaders.acted_until[at] + liveness.slack
            if not liveness.is_hindered(broker, deposed_ns, deposed_ns + LEARNS_NS):
                until_ns = min(until_ns, deposed_ns + LEARNS_NS + liveness.slack)
            if since_ns <= until_ns and not liveness.is_silent(broker, leader, since_ns, until_ns):
                place = self._place[broker]
                sets[place] = while_following(sets[place], leader_has_it=True)
        return world._replace(sets=tuple(sets))

    def _commit(self, world: PossibleWorld, members: Iterable[int]) -> PossibleWorld:
        """Let these members of the ISR have had the record, because it was committed."""
        sets = list(world.sets)
        for broker in members:
            sets[self._place[broker]] = after_commit(sets[self._place[broker]])
        return world._replace(sets=tuple(sets))

    def _commit_since_send(self, world: PossibleWorld, at: int) -> PossibleWorld:
        """Let the record be committed at some time while the leader of an election led."""
        latest = self._of.leaders.last_state(at)
        return self._commit(
            world, (one for one in self._states[latest].isr if self._was_member_throughout(one, latest))
        )

    def _ends_leadership(self, at: int, moment: PartitionMoment) -> bool:
        """Whether the moment ends the leadership in which an acks=all answer must have been committed, if it came."""
        if moment.what != "state" or not self._asked.acks_all or at not in self._leadership:
            return False
        epochs = {self._states[one].leader_epoch for one in self._leadership}
        return self._states[moment.which].leader_epoch not in epochs

    def _was_member_throughout(self, broker: int, latest: int) -> bool:
        """Whether the broker was in the ISR in all states from the send on."""
        since = self._asked.sent_ns - self._of.liveness.slack
        return all(
            broker in self._states[at].isr
            for at in range(self._writer, latest + 1)
            if self._elections.time(at + 1) >= since
        )

    # ---- the moments

    def _step(self, world: PossibleWorld, moment: PartitionMoment, latest: int) -> Iterator[PossibleWorld]:
        if moment.what == "restart" and moment.at_ns + self._of.liveness.slack < self._asked.sent_ns:
            yield world
        elif moment.what == "restart":
            place = self._place[moment.which]
            yield world._replace(sets=with_set(world.sets, place, after_restart(world.sets[place])))
        elif moment.what == "disk":
            disk = self._of.history.disks[moment.which]
            own = frozenset({disk.broker})
            for after in self._lose_disk(world, moment):
                fetched = self._fetch(after, latest, disk.gone.first_ns, without=own)
                # What it fetched before its disk was lost is lost, too.
                others = frozenset(self._place) - own
                yield self._fetch(fetched, latest, disk.gone.last_ns, without=others)
        elif moment.which == self._writer:
            yield self._follow(world, moment.which)
        else:
            for after in self._change_leader(world, moment.which):
                yield self._follow(after, moment.which)

    def _end(self, world: PossibleWorld) -> Iterator[PossibleWorld]:
        """Return the worlds at the end: the disk of the last leader may have taken the record without an election."""
        leader = world.leader
        found = HAS_IT if leader is None else world.sets[self._place[self._states[leader].leader]]
        taken = 0 if world.guilt else found & (DISK_TOOK_IT | UNRECORDED_LOSS)
        if not taken or found & HAS_IT:
            yield world
        if taken:
            allowed = permits("any", taken, {"never committed": not self._is_committed(world)})
            yield world._replace(guilt=Guilt(None, taken, allowed or Permits(needs=frozenset({NEEDS["gap"]}))))

    def _lose_disk(self, world: PossibleWorld, moment: PartitionMoment) -> Iterator[PossibleWorld]:
        disk = self._of.history.disks[moment.which]
        gone = world.gone | {moment.which}
        if moment.which in world.gone:
            yield world._replace(gone=world.gone - {moment.which}) if moment.is_last else world
            return
        if not moment.is_last:
            yield world
        place = self._place[disk.broker]
        found = world.sets[place]
        if disk.ends is not None and self._is_first_log(world):
            found = at_measured_end(found, self._asked.offset, disk.ends)
        sets = with_set(world.sets, place, self._after_loss(found, disk))
        yield world._replace(sets=sets, gone=world.gone if moment.is_last else gone)

    def _is_first_log(self, world: PossibleWorld) -> bool:
        """Whether no log can have another record at the offset: the first leader wrote it, and all since had it."""
        asked, elections = self._asked, self._elections
        is_first = self._writer == elections.all[0] and not asked.may_be_older
        return is_first and world.guilt is None and not elections.has_gaps

    def _after_loss(self, found: int, disk: DiskLoss) -> int:
        """Return what a replica may hold after a disk loss, which took nothing that was sent later."""
        # Clients and steps have one clock.
        was_before = disk.gone.last_ns < self._asked.sent_ns
        return found if was_before else after_disk(found, self._asked.offset, disk.ends)

    def _change_leader(self, world: PossibleWorld, at: int) -> Iterator[PossibleWorld]:
        """Return the worlds once the record of state `at` was written, before replicas follow the new leader."""
        if self._elections.hides[at]:
            world = world._replace(sets=tuple(map(after_gap, world.sets)), leader=None, is_unserved=False)
            alternatives = [world, world._replace(guilt=world.guilt or Guilt.hidden())]
        else:
            alternatives = [world]
        for one in alternatives:
            if self._states[at].leader < 0:
                yield one._replace(leader=None)
            elif self._elections.is_election(at):
                yield from self._elect(self._join(one, at), at)
            else:
                yield one

    def _elect(self, world: PossibleWorld, at: int) -> Iterator[PossibleWorld]:
        state, asked, led = self._states[at], self._asked, self._of.leaders.led[at]
        place = self._place[state.leader]
        first = self._elections.leadership[at]
        begins = world.leader is None or self._elections.leadership[world.leader] != first
        found = world.sets[place]
        had = self._of.epochs.had(at, asked.value, asked.offset, self._writer, begins=begins)
        if not led:
            yield world._replace(leader=None, unled=self._with_unled(world, at))
        if led is False:
            return
        if had is not False and found & HAS_IT:
            committed = world.is_committed or self._of.epochs.of[at].hw_max > asked.offset
            sets = with_set(world.sets, place, HAS_IT)
            yield PossibleWorld(
                sets, at, world.guilt_after_return, committed, at, True, (), world.gone, world.is_unserved
            )
        is_same_log = first != at and first <= self._writer and world.leader is not None and world.has_it
        if is_same_log or had is True:
            return
        for one in self._before_lacking(world, at):
            found = one.sets[place]
            if found & ~HAS_IT or had is False:
                sets = with_set(one.sets, place, found & ~HAS_IT or NEVER_HAD_IT)
                unled = tuple(own for own in one.unled if own[0] != state.leader)
                for guilt in [one.guilt] if one.guilt else self._guilts(one, at, lacking(found)):
                    yield one._replace(sets=sets, guilt=guilt, leader=at, has_it=False, unled=unled)

    def _before_lacking(self, world: PossibleWorld, at: int) -> Iterator[PossibleWorld]:
        """Yield the worlds before a leader without the record: consumers were served it by now, or will be later."""
        yield world
        if world.is_unserved and world.guilt is None:
            has_gap = self._elections.has_gap_between(self._writer, at)
            yield (world if has_gap else self._commit_since_send(world, world.holder))._replace(is_unserved=False)

    def _with_unled(self, world: PossibleWorld, at: int) -> tuple[tuple[int, int], ...]:
        """Remember an election by name that put its winner alone into the ISR, in case that broker never led by it."""
        before, after = self._states[at - 1], self._states[at]
        by_name = after.recovering and after.isr == (after.leader,) and after.leader not in before.isr
        if not by_name or self._elections.gap[at]:
            return world.unled
        return (*(one for one in world.unled if one[0] != after.leader), (after.leader, at))

    def _guilts(self, world: PossibleWorld, at: int, reasons: int) -> Iterator[Guilt]:
        """Yield what the worlds blame in which the winner of an election lacks the record for one of these reasons.

        Where nothing allows that a winner by a clean election lacks it, its own election by name may: it put the
        broker into the ISR, although the broker perhaps never led by it.
        """
        if self._elections.gap[at]:
            is_safe = self._is_committed(world)
            allowed = Permits(needs=frozenset({NEEDS["gap"]})) if is_safe else self._permits(world, at, reasons)
            yield Guilt(None, reasons, allowed)
            return
        own = dict(world.unled).get(self._states[at].leader)
        if own is not None:
            here = sum(one for one in STATES if one & reasons and self._is_allowed(world, at, one))
            by_name = Guilt(own, reasons & ~here, self._permits(world, own, reasons & ~here))
            if by_name.permits:
                yield by_name
                reasons = here
        if reasons:
            # A replica that lacks what it must have may have lacked it at an earlier election.
            is_first = not reasons & CONTRADICTED or world.holder in self._leadership
            yield Guilt(at if is_first else None, reasons, self._permits(world, at, reasons))

    def _is_allowed(self, world: PossibleWorld, at: int, reason: int) -> bool:
        return Guilt(at, reason, self._permits(world, at, reason)).is_allowed

    def _permits(self, world: PossibleWorld, at: int, reasons: int) -> Permits:
        took = [world.sets[self._place[broker]] for broker in self._states[at - 1].replicas]
        return permits_of(self._of, self._asked, at, reasons, took, is_committed=self._is_committed(world))

    def _is_committed(self, world: PossibleWorld) -> bool:
        return world.is_committed if self._asked.committed is None else self._asked.committed

    # ---- the ceiling: what followers may lose, and what they get

    def _join(self, world: PossibleWorld, at: int) -> PossibleWorld:
        """Let the brokers enter the ISR that a reassignment brings in by the record that elects one of them."""
        if world.leader is None or not self._of.leaders.joins(at):
            return world
        return world._replace(sets=self._after_joins(world, world.leader, at))

    def _after_joins(self, world: PossibleWorld, leader: int, at: int) -> Sets:
        sets = world.sets
        for broker in self._of.leaders.joins(at):
            place = self._place[broker]
            losses, is_older = self._of.losses_since_request(broker, at), leader > self._writer
            stale = not losses and self._of.may_be_stale(broker, leader, at)
            found = before_disk(sets[place]) if losses else sets[place]
            found = after_join(found, leader_has_it=world.has_it, is_older=is_older, may_be_stale=stale)
            for disk in losses:
                found = self._after_loss(found, disk)
            sets = with_set(sets, place, found)
        return sets

    def _follow(self, world: PossibleWorld, at: int) -> PossibleWorld:
        """Let replicas enter the ISR by a state, and follow the leader until the next one."""
        if world.leader is None:
            return world
        joins = frozenset[int]()
        is_there = self._states[at].at_ns + self._of.liveness.slack >= self._asked.sent_ns
        if is_there and at != self._writer and not self._elections.is_election(at):
            joins = self._of.leaders.joins(at)
            world = world._replace(sets=self._after_joins(world, world.leader, at))
        return self._fetch(world, at, self._elections.began_ns[at] - self._of.liveness.slack, without=joins)

    def _fetch(
        self, world: PossibleWorld, at: int, since_ns: int, *, without: frozenset[int] = frozenset()
    ) -> PossibleWorld:
        """Let replicas follow the leader from a time until the state behind `at`, both by the clock of the steps."""
        state, liveness, sets = self._states[at], self._of.liveness, list(world.sets)
        if world.leader is None or liveness.has_dead_session(state.leader, state):
            return world
        since_ns = max(self._asked.sent_ns, since_ns)
        # A leader that died serves no more fetches before it registers again.
        until_ns = min(self._elections.time(at + 1) + liveness.slack, liveness.died_by(state.leader, state))
        if until_ns < since_ns:
            return world
        for broker in set(state.replicas) - {state.leader} - without:
            if not liveness.is_silent(broker, state.leader, since_ns, min(NEVER, until_ns)):
                place = self._place[broker]
                sets[place] = while_following(sets[place], leader_has_it=world.has_it)
        return world._replace(sets=tuple(sets))
