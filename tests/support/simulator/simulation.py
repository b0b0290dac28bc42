"""Replays a script: time, the network, processes, and what they do to logs."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterable
from typing import Any

from analysis.spec.partition import Partition
from simulator.clients import Clients
from simulator.clocks import Clocks
from simulator.controller import CONTROLLER, Controller, ElectionMade
from simulator.faults import Faults
from simulator.finishing import finish
from simulator.history import TrueHistory
from simulator.leading import Leading
from simulator.replica import Replica
from simulator.script import MS, SECOND, Script
from simulator.truth import Truth

CLIENT = 0
_TICK = 250 * MS


class Broker:
    """A process, its registration and its replicas."""

    def __init__(self, node: int) -> None:
        self.node = node
        self.up = False
        self.life = 0
        self.registered = False
        self.stopping = False
        self.clean = True
        self.broker_epoch = -1
        self.contact_at = 0
        self.paused_until = 0
        self.on_resume: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self.applied_at = 0
        self.image: dict[int, Partition] = {}
        self.replicas: dict[int, Replica] = {}
        self.killed = False
        """Whether its last end was a kill that took nothing from its disk."""


class Simulation:
    """The cluster in time."""

    def __init__(self, script: Script) -> None:
        self.script, self.setup = script, script.setup
        self.now = 0
        self._queue: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._count = 0
        self._dice: dict[str, random.Random] = {}
        self.cuts: dict[tuple[int, int], int] = {}
        self.isr_held_until = 0
        self.is_violating = False
        self.violated = 0
        self._troubles: list[tuple[int, int]] = []
        self._elections_known = 0
        self.truth = Truth(frozenset(script.lacks))
        self.clocks = Clocks(lambda: self.now)
        self.controller = Controller(
            self.setup, lambda: self.now + self.setup.controller_clock + self.clocks.ahead, self._published
        )
        nodes = range(1, self.setup.brokers + self.setup.spares + 1)
        self.brokers = {node: Broker(node) for node in nodes}
        self.leading = Leading(self)
        self.clients = Clients(self)
        self.faults = Faults(self)

    def dice(self, name: str) -> random.Random:
        """Return the generator of a name, so that a dropped fault does not change all that comes later."""
        found = self._dice.get(name)
        if found is None:
            found = self._dice[name] = random.Random(f"{self.script.seed}/{name}")
        return found

    def later(self, delay: int, act: Callable[..., None], *values: Any) -> None:
        """Do something after a delay."""
        self._count += 1
        heapq.heappush(self._queue, (self.now + delay, self._count, act, values))

    def run(self) -> TrueHistory:
        """Run the whole script, settle, and return what was seen and what is true."""
        self._start_cluster()
        self.faults.schedule(self.script.faults)
        ends = (one.at + one.lasts + one.spread + one.takes for one in self.script.faults)
        self._run_until(max([self.setup.sends_end, *ends]))
        self._run_until(self.faults.heal_all() + 4 * SECOND + 2 * self.setup.session_timeout + self.setup.lag_max)
        self.faults.elect_leaderless()
        self._run_until(self.now + 2 * SECOND + self.setup.lag_max)
        return finish(self)

    def _run_until(self, end: int) -> None:
        queue = self._queue
        while queue and queue[0][0] <= end:
            self.now, _, act, values = heapq.heappop(queue)
            act(*values)
        self.now = end

    def _start_cluster(self) -> None:
        for broker in self.brokers.values():
            broker.up = True
            self._register(broker, broker.life)
        for broker in self.brokers.values():
            self.controller.unfence(broker.node)
        self._run_until(SECOND)
        self.controller.create(self.setup, self.setup.replicas_of(self.script.seed))
        self._run_until(1_500 * MS)
        self.clients.start()
        self.later(_TICK, self._tick)

    def reach(self, one: int, other: int) -> bool:
        """Return whether packets pass between two nodes."""
        return not self.cuts or (one, other) not in self.cuts

    def is_awake(self, node: int) -> bool:
        """Return whether a broker's process runs and is not frozen."""
        broker = self.brokers[node]
        return broker.up and broker.paused_until <= self.now

    def hears_controller(self, broker: Broker) -> bool:
        """Return whether a request of the broker reaches the controller now."""
        awake = broker.up and broker.paused_until <= self.now
        return awake and not self.controller.is_down and self.reach(broker.node, CONTROLLER)

    def _tick(self) -> None:
        """Send heartbeats, end sessions, check ISRs."""
        controller, now = self.controller, self.now
        for broker in self.brokers.values():
            node = broker.node
            if broker.registered and self.hears_controller(broker):
                broker.contact_at = now
                if broker.stopping:
                    self._stop_cleanly(broker)
                elif node not in controller.cluster.unfenced and now - broker.applied_at < 2 * SECOND:
                    controller.unfence(node)
            elif (
                node in controller.cluster.unfenced
                and not controller.is_down
                and now - broker.contact_at > self.setup.session_timeout
            ):
                controller.fence(node)
        self.leading.check_isrs()
        self.clocks.look()
        if now % (12 * _TICK) == 0 and not controller.is_down:
            controller.sweep()
        self.later(_TICK, self._tick)

    def _published(self) -> None:
        """Let brokers apply what the metadata log now has."""
        elections = self.controller.elections
        for election in elections[self._elections_known :]:
            self.truth.elected(election, self)
        self._elections_known = len(elections)
        self.clocks.log_grew(self.controller.offset)
        for broker in self.brokers.values():
            if broker.up and broker.registered:
                self.later(self.dice(f"metadata/{broker.node}").randint(2, 40) * MS, self.apply, broker, broker.life)

    def apply(self, broker: Broker, life: int) -> None:
        """Apply the newest state of all partitions on a broker."""
        if broker.life != life or not broker.up or not broker.registered:
            return
        if broker.paused_until > self.now:
            broker.on_resume.append((self.apply, (broker, life)))
            return
        if not self.reach(broker.node, CONTROLLER):
            self.later(200 * MS, self.apply, broker, life)
            return
        broker.applied_at = self.now
        for number, partition in self.controller.partitions.items():
            if broker.image.get(number) is not partition:
                broker.image[number] = partition
                self.leading.become(broker, number, partition)
        self.leading.refresh_followers(broker)

    def start(self, broker: Broker) -> None:
        """Start a broker's process."""
        if broker.up:
            return
        broker.up, broker.stopping = True, False
        broker.life += 1
        if broker.killed:
            self._recover_after_kill(broker)
        boot = self.dice(f"boot/{broker.node}").randint(200, 700) * MS
        self.later(boot, self._register, broker, broker.life)

    def _recover_after_kill(self, broker: Broker) -> None:
        """Recover the logs after a kill; with the planted violation, records are dropped."""
        broker.killed = False
        if not self.may_violate("kill-drops-records"):
            return
        for replica in broker.replicas.values():
            committed = sum(1 for entry in replica.log if entry.committed_at is not None)
            if committed > 6:
                replica.cut(len(replica.log) - self.dice("violation").randint(3, 9), "K")
                self.violated += 1

    def may_violate(self, name: str) -> bool:
        """Return whether the planted violation is this one, and its time has come."""
        return self.is_violating and self.script.violation == name

    def _register(self, broker: Broker, life: int) -> None:
        if broker.life != life or not broker.up:
            return
        if not self.hears_controller(broker) or broker.node in self.controller.cluster.unfenced:
            self.later(200 * MS, self._register, broker, life)
            return
        name = f"inc-{broker.node}-{broker.life + 1}"
        broker.broker_epoch = self.controller.register(broker.node, clean=broker.clean, incarnation=name)
        broker.clean, broker.registered, broker.contact_at = False, True, self.now
        broker.image = {}
        self.later(self.dice(f"boot/{broker.node}").randint(20, 90) * MS, self.apply, broker, life)

    def end(self, broker: Broker, *, killed: bool) -> None:
        """End a broker's process at once."""
        self._troubles.append((broker.node, self.now))
        self.truth.reigns.ended(broker.node, self.now)
        broker.up = broker.registered = broker.stopping = False
        broker.killed = killed
        broker.paused_until = 0
        broker.on_resume = []
        broker.life += 1
        for replica in broker.replicas.values():
            self.leading.drop_waiting(replica, answer=None)
            replica.leader = None
            replica.fetch_at = None
            replica.follows = -1

    def had_trouble(self, node: int, at: int, *, before: int = 7 * SECOND) -> bool:
        """Return whether a broker ended or was hindered not long before a time or soon after it."""
        return any(one == node and at - before <= when <= at + SECOND for one, when in self._troubles)

    def begin_stop(self, broker: Broker) -> None:
        """Ask a broker to stop cleanly."""
        if broker.up:
            broker.stopping = True
            self.later(5 * SECOND, self._give_up_stop, broker, broker.life)

    def _stop_cleanly(self, broker: Broker) -> None:
        """Leave leadership and ISRs, flush, end."""
        if broker.node in self.controller.cluster.unfenced and broker.node not in self.controller.cluster.shutting_down:
            self.controller.shut_down(broker.node)
            return
        if any(one.leader == broker.node for one in self.controller.partitions.values()):
            return
        if broker.node in self.controller.cluster.unfenced:
            self.controller.fence(broker.node)
        self._end_cleanly(broker)

    def _give_up_stop(self, broker: Broker, life: int) -> None:
        if broker.life == life and broker.up and broker.stopping:
            self._end_cleanly(broker)

    def _end_cleanly(self, broker: Broker) -> None:
        for replica in broker.replicas.values():
            replica.flushed = len(replica.log)
        self.end(broker, killed=False)
        broker.clean = True
        self.faults.stopped(broker.node)

    def pause(self, broker: Broker, lasts: int) -> None:
        """Freeze a process; what comes for it meanwhile waits."""
        if broker.up:
            self._troubles.append((broker.node, self.now))
            broker.paused_until = max(broker.paused_until, self.now + lasts)
            self.later(lasts + 1, self._resume, broker, broker.life)

    def _resume(self, broker: Broker, life: int) -> None:
        if broker.life != life or not broker.up or broker.paused_until > self.now:
            return
        waiting, broker.on_resume = broker.on_resume, []
        for act, values in waiting:
            act(*values)
        self.apply(broker, life)

    def cut(self, ones: Iterable[int], others: Iterable[int], change: int) -> None:
        """Cut two sides from each other, or heal that cut (`change` -1)."""
        self._troubles += [(node, self.now) for node in (*ones, *others)]
        for one in ones:
            for other in others:
                if one == other:
                    continue
                for link in ((one, other), (other, one)):
                    count = self.cuts.get(link, 0) + change
                    if count > 0:
                        self.cuts[link] = count
                    else:
                        self.cuts.pop(link, None)

    def election_of(self, number: int, partition: Partition) -> ElectionMade:
        """Return the election by which a partition has its leader."""
        return next(
            one
            for one in reversed(self.controller.elections)
            if one.partition == number
            and (one.after.leader, one.after.leader_epoch) == (partition.leader, partition.leader_epoch)
        )


def simulate(script: Script) -> TrueHistory:
    """Return the history of a script."""
    return Simulation(script).run()
