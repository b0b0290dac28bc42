"""What brokers do as leaders and followers: append, fetch, advance the HW, ask for ISRs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.spec.leader import Follower, Leader
from analysis.spec.partition import NO_EPOCH, AlterPartition, Partition
from simulator.replica import Entry, Replica, Waiting
from simulator.script import MS

if TYPE_CHECKING:
    from simulator.simulation import Broker, Simulation

_FETCH_MAX = 40
_RETRY = 100 * MS


class Leading:
    """The leaders and followers of a simulation."""

    def __init__(self, simulation: Simulation) -> None:
        self._sim = simulation
        self._entries = 0
        self.slow: dict[int, tuple[int, int]] = {}
        """Until when, and by how much, a broker's fetches are slow."""
        self._rules = simulation.controller.protocol

    def become(self, broker: Broker, number: int, state: Partition) -> None:
        """Let a broker apply a partition's state."""
        replica = broker.replicas.get(number)
        if broker.node not in state.replicas:
            if replica is not None:
                self.drop_waiting(replica, answer="NOT_LEADER_OR_FOLLOWER")
                replica.leader = None
                replica.cut(0, "R")
                replica.follows = -1
            return
        if replica is None:
            replica = broker.replicas[number] = Replica(broker.node, number)
            self._schedule_flush(replica)
        if state.leader == broker.node:
            self._lead(broker, replica, state)
        else:
            self._follow(replica, state)

    def _lead(self, broker: Broker, replica: Replica, state: Partition) -> None:
        sim, now = self._sim, self._sim.now
        leads_on = replica.leader is not None and replica.epoch == state.leader_epoch
        if not leads_on or replica.leader is None:
            election = sim.election_of(replica.number, state)
            others = tuple(one for one in state.replicas if one != broker.node)
            replica.leader = Leader(
                broker.node,
                state.replicas,
                state.isr,
                state.isr,
                tuple(Follower(one, -1) for one in others),
                leo=len(replica.log),
                hw=replica.hw,
                epoch_start=len(replica.log),
                broker_epoch=broker.broker_epoch,
            )
            replica.caught_at = dict.fromkeys(others, now)
            replica.last_leo = {}
            replica.epoch, replica.hw_when_elected = state.leader_epoch, replica.hw
            replica.leads_since = election.order
            replica.follows = -1
            sim.truth.led(election, replica, sim)
        else:
            known = {one.broker: one for one in replica.leader.followers}
            followers = tuple(known.get(one, Follower(one, -1)) for one in state.replicas if one != broker.node)
            replica.leader = replica.leader._replace(followers=followers, replicas=state.replicas)
        self._moved(replica, self._rules.isr_published(replica.leader, self._min_isr(), state.isr).leader)

    def _follow(self, replica: Replica, state: Partition) -> None:
        self.drop_waiting(replica, answer="NOT_LEADER_OR_FOLLOWER")
        replica.leader = None
        if (replica.follows, replica.epoch) != (state.leader, state.leader_epoch):
            replica.follows, replica.epoch = state.leader, state.leader_epoch
            if state.leader >= 0:
                self._fetch_soon(replica, 2 * MS)

    def refresh_followers(self, broker: Broker) -> None:
        """Let a broker's leaders know which followers are fenced, shut down or registered again."""
        cluster = self._sim.controller.cluster
        for replica in broker.replicas.values():
            if replica.leader is None:
                continue
            replica.leader = replica.leader._replace(
                followers=tuple(
                    one._replace(
                        fenced=one.broker not in cluster.unfenced,
                        shutting_down=one.broker in cluster.shutting_down,
                        metadata_epoch=cluster.epoch(one.broker),
                    )
                    for one in replica.leader.followers
                )
            )

    def append(self, replica: Replica, value: int, acks: int, request: Any) -> str | Entry:
        """Append a record; returns it, or the error."""
        assert replica.leader is not None
        sim = self._sim
        step = self._rules.append(replica.leader, self._min_isr(), acks)
        if step.error != "NONE":
            return step.error
        self._entries += 1
        offset = len(replica.log)
        entry = Entry(self._entries, value, replica.epoch, replica.leads_since, offset, acks, sim.now)
        replica.append(entry)
        sim.truth.appended(entry, replica)
        if acks == -1:
            replica.waiting.append(Waiting(entry, request))
        self._moved(replica, step.leader)
        for follower in replica.leader.followers:
            other = sim.brokers[follower.broker].replicas.get(replica.number)
            if other is not None and other.follows == replica.broker and sim.brokers[follower.broker].up:
                self._fetch_soon(other, self._delay(follower.broker))
        return entry

    def _delay(self, node: int) -> int:
        base = self._sim.setup.broker_fetch
        delay = self._sim.dice(f"fetch/{node}").randint(base // 2, base * 2)
        until, by = self.slow.get(node, (0, 0))
        return delay + by if until > self._sim.now else delay

    def _fetch_soon(self, replica: Replica, delay: int) -> None:
        at = self._sim.now + delay
        if replica.fetch_at is None or replica.fetch_at > at + 20 * MS:
            replica.fetch_at = at
            self._sim.later(delay, self._fetch, replica, self._sim.brokers[replica.broker].life, at)

    def _fetch(self, replica: Replica, life: int, at: int) -> None:
        sim = self._sim
        broker = sim.brokers[replica.broker]
        if replica.fetch_at != at or broker.life != life or not broker.up:
            return
        replica.fetch_at = None
        if replica.follows < 0 or replica.leader is not None:
            return
        theirs = sim.brokers[replica.follows].replicas.get(replica.number)
        if (
            theirs is None
            or theirs.leader is None
            or theirs.epoch != replica.epoch
            or not sim.is_awake(replica.follows)
            or not sim.is_awake(replica.broker)
            or not sim.reach(replica.broker, replica.follows)
        ):
            self._fetch_soon(replica, _RETRY)
            return
        end = replica.common_end(theirs)
        if end < len(replica.log):
            replica.cut(end, "T")
        self._serve_fetch(broker, replica, theirs)
        if len(theirs.log) > len(replica.log):
            new = theirs.log[len(replica.log) : len(replica.log) + _FETCH_MAX]
            for entry in new:
                replica.append(entry)
            self._fetch_soon(replica, self._delay(replica.broker))
        if theirs.leader is not None:
            replica.hw = max(replica.hw, min(theirs.leader.hw, len(replica.log)))

    def _serve_fetch(self, broker: Broker, replica: Replica, theirs: Replica) -> None:
        """Let the leader handle a follower's fetch."""
        sim, leader = self._sim, theirs.leader
        assert leader is not None
        offset = len(replica.log)
        before = theirs.last_leo.get(broker.node)
        if offset >= leader.leo:
            theirs.caught_at[broker.node] = sim.now
        elif before is not None and offset >= before[0]:
            theirs.caught_at[broker.node] = max(theirs.caught_at.get(broker.node, 0), before[1])
        theirs.last_leo[broker.node] = (leader.leo, sim.now)
        epoch = NO_EPOCH
        if self._rules.fetch_epoch(sim.controller.cluster, broker.node) != NO_EPOCH:
            epoch = broker.broker_epoch
        early = sim.may_violate("joins-too-early") and broker.node not in leader.isr and offset < leader.hw
        told = leader.hw if early else offset
        step = self._rules.fetch(leader, self._min_isr(), broker.node, told, epoch)
        if step.error != "NONE":
            return
        if early and step.proposed is not None:
            sim.violated += 1
        self._moved(theirs, step.leader)
        if step.proposed is not None:
            self._ask(theirs, step.proposed)

    def check_isrs(self) -> None:
        """Make the periodic check of all leaders."""
        sim = self._sim
        for broker in sim.brokers.values():
            if not broker.up or broker.paused_until > sim.now:
                continue
            for replica in broker.replicas.values():
                leader = replica.leader
                if leader is None or leader.pending:
                    continue
                late = sim.now - sim.setup.lag_max
                followers = tuple(
                    one._replace(caught_up=replica.caught_at.get(one.broker, 0) > late or one.leo == leader.leo)
                    for one in leader.followers
                )
                step = self._rules.maybe_shrink(leader._replace(followers=followers), self._min_isr())
                replica.leader = step.leader
                if step.proposed is not None:
                    self._ask(replica, step.proposed)

    def _ask(self, replica: Replica, proposed: tuple[tuple[int, int], ...]) -> None:
        """Send an AlterPartition request."""
        broker = self._sim.brokers[replica.broker]
        state = broker.image[replica.number]
        request = AlterPartition(
            replica.broker,
            replica.epoch,
            state.partition_epoch,
            proposed,
            broker_epoch=broker.broker_epoch,
        )
        held = max(0, self._sim.isr_held_until - self._sim.now)
        delay = self._sim.dice(f"ask/{replica.broker}").randint(2, 20) * MS
        registered = self._sim.controller.cluster.epochs
        self._sim.later(held + delay, self._deliver, replica, broker.life, request, registered)

    def _deliver(self, replica: Replica, life: int, request: AlterPartition, registered: tuple[int, ...]) -> None:
        sim = self._sim
        broker = sim.brokers[replica.broker]
        sent_by_living = broker.life == life and broker.up
        if sent_by_living and not sim.hears_controller(broker):
            if replica.leader is not None and replica.epoch == request.leader_epoch:
                sim.later(300 * MS, self._deliver, replica, life, request, registered)
            return
        if not sent_by_living or sim.controller.is_down:
            return
        cluster, isr = sim.controller.cluster, sim.controller.partitions[replica.number].isr
        stale = [one for one in request.isr - isr if registered[one] != cluster.epoch(one)]
        error = sim.controller.alter_partition(replica.number, request)
        if error in ("NONE", "NEW_LEADER_ELECTED"):
            for one in stale:
                # A request from before KIP-903 was in force has no epochs that could be refused.
                allowed = not self._rules.checks_epochs or dict(request.isr_epochs)[one] == NO_EPOCH
                sim.truth.joined_stale(sim, replica, one, allowed=allowed)
        sim.later(5 * MS, self._answer, replica, life, request, error, registered)

    def _answer(
        self, replica: Replica, life: int, request: AlterPartition, error: str, registered: tuple[int, ...]
    ) -> None:
        sim = self._sim
        broker = sim.brokers[replica.broker]
        leader = replica.leader
        if broker.life != life or leader is None or replica.epoch != request.leader_epoch or not leader.pending:
            return
        if broker.image[replica.number].partition_epoch > request.partition_epoch:
            return
        if error == "NONE":
            state = sim.controller.partitions[replica.number]
            if state.partition_epoch == request.partition_epoch + 1 and state.leader_epoch == request.leader_epoch:
                self._moved(replica, self._rules.isr_accepted(leader, self._min_isr(), state.isr).leader)
            return
        step = self._rules.isr_refused(leader, error)
        replica.leader = step.leader
        if step.retried:
            sim.later(100 * MS, self._deliver, replica, life, request, registered)

    def _moved(self, replica: Replica, leader: Leader) -> None:
        """Take the leader's new state, commit what the HW passed, and answer requests."""
        sim = self._sim
        if sim.may_violate("hw-passes-member"):
            leader = self._without_slowest(replica, leader)
        replica.leader = leader
        if leader.hw > replica.hw:
            for entry in replica.log[replica.hw : leader.hw]:
                if entry.committed_at is None:
                    entry.committed_at = sim.now
                    entry.min_isr = min(self._min_isr(), len(leader.followers) + 1)
            replica.hw = leader.hw
        early = sim.may_violate("acks-too-early")
        while replica.waiting and (early or replica.waiting[0].entry.offset < leader.hw):
            waiting = replica.waiting.pop(0)
            if waiting.entry.offset >= leader.hw:
                sim.violated += 1
                sim.clients.answered(waiting.request, replica.broker, waiting.entry, None)
                continue
            step = self._rules.acked(leader, self._min_isr(), waiting.entry.offset + 1)
            error = None if step.error == "NONE" else step.error
            sim.clients.answered(waiting.request, replica.broker, waiting.entry, error)

    def _without_slowest(self, replica: Replica, leader: Leader) -> Leader:
        """Advance the HW past the slowest ISR member: the planted violation."""
        others = leader.maximal - {leader.broker}
        if len(others) < 1 or not replica.log:
            return leader
        slowest = min(leader.followers, key=lambda one: (one.broker not in others, one.leo))
        told = tuple(one._replace(leo=leader.leo) if one is slowest else one for one in leader.followers)
        moved = self._rules.advance_hw(leader._replace(followers=told), self._min_isr())
        if moved.hw > leader.hw:
            self._sim.violated += 1
        return leader._replace(hw=moved.hw)

    def drop_waiting(self, replica: Replica, *, answer: str | None) -> None:
        """Answer all waiting requests with an error; None: the connection just ends.

        Whoever leads no more calls this.
        """
        waiting, replica.waiting = replica.waiting, []
        for one in waiting:
            if answer is not None:
                self._sim.clients.answered(one.request, replica.broker, one.entry, answer)

    def _min_isr(self) -> int:
        return self._sim.controller.cluster.min_isr

    def _schedule_flush(self, replica: Replica) -> None:
        every = self._sim.setup.flush_every
        if every is not None:
            wait = self._sim.dice(f"flush/{replica.broker}").randint(every // 2, every * 3 // 2)
            self._sim.later(wait, self._flush, replica)

    def _flush(self, replica: Replica) -> None:
        if self._sim.is_awake(replica.broker):
            replica.flushed = len(replica.log)
        self._schedule_flush(replica)
