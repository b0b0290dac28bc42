"""The simulated controller: the decisions are the specification's, and the metadata log keeps them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from analysis.spec.partition import (
    NO_EPOCH,
    NO_LEADER,
    AlterPartition,
    Cluster,
    Election,
    Outcome,
    Partition,
    UncleanElection,
)
from analysis.spec.variants import protocol_for
from ebbtide.releases.known_releases import ELR_VERSION, METADATA_VERSION
from simulator.script import MS, Setup

TOPIC = "t"
CONTROLLER = 100
MIN_ISR, UNCLEAN = "min.insync.replicas", "unclean.leader.election.enable"
Row = dict[str, Any]


@dataclass(frozen=True)
class ElectionMade:
    """A new leader or leader epoch, and what decided whether the controller was allowed to make it.

    `road`: clean, unclean, last-known or recovery. `passed`: the living members of ISR or ELR that an
    unclean election left out.
    """

    metadata_offset: int
    partition: int
    at: int
    order: int
    before: Partition
    after: Partition
    road: str
    asked: bool
    passed: frozenset[int]
    elr_when_registered: bool
    """Whether the ELR was on when the winner registered last: only then did its unclean shutdown count."""

    @property
    def is_allowed(self) -> bool:
        """Whether the protocol let the controller elect this broker then."""
        return self.road != "unclean" or (self.asked and not self.passed)


class Controller:
    """The active controller's state and its log."""

    def __init__(self, setup: Setup, now: Callable[[], int], published: Callable[[], None]) -> None:
        self.protocol = protocol_for(setup.kafka, setup.features)
        self._now, self._published = now, published
        self.rows: dict[str, list[Row]] = {"partitions": [], "brokers": [], "configs": []}
        self.elections: list[ElectionMade] = []
        self.partitions: dict[int, Partition] = {}
        self.offset = 0
        self.epoch = 1
        self.is_down = False
        self.recovering = False
        self.violation: str | None = None
        self.violated_at: int | None = None
        self.incarnations: dict[int, str] = {}
        self._registering: frozenset[int] = frozenset()
        self._elr_of: dict[int, bool] = {}
        elr = bool(setup.features.get(ELR_VERSION, 0))
        self.cluster = Cluster(
            frozenset(), frozenset(), elr=elr, metadata_version=setup.features["metadata.version"], min_isr=1
        )
        for name, level in setup.features.items():
            self._write("configs", resource=f"feature:{name}", name="level", value=str(level))

    def create(self, setup: Setup, replicas: dict[int, tuple[int, ...]]) -> None:
        """Create the topic with a replica list for each partition."""
        self.set_config(MIN_ISR, setup.min_isr)
        if setup.unclean is not None:
            self.set_config(UNCLEAN, int(setup.unclean))
        for number, listed in replicas.items():
            self._put(number, None, Partition(replicas=listed, isr=frozenset(listed), leader=listed[0]), asked=False)
        self._published()

    def register(self, broker: int, *, clean: bool, incarnation: str) -> int:
        """Register a broker's new process; returns its broker epoch."""
        epoch, stored = self.offset, self.cluster.epoch(broker)
        self._elr_of[broker] = self.cluster.elr
        if self._violates("unclean-stays-electable") and not clean and self._is_electable(broker):
            clean = True
            self.violated_at = self.offset
        previous = stored if clean and self.protocol.reads_clean_shutdown_file else NO_EPOCH
        self.incarnations[broker] = incarnation
        self._broker_event(
            broker,
            "registered",
            lambda p, c: self.protocol.register(p, c, broker, epoch=epoch, previous_epoch=previous),
        )
        return epoch

    def fence(self, broker: int) -> None:
        """Fence a broker whose session ended."""
        self._broker_event(broker, "fenced", lambda p, c: self.protocol.fence(p, c, broker))

    def unfence(self, broker: int) -> None:
        """Unfence a broker that caught up."""
        self._broker_event(broker, "unfenced", lambda p, c: self.protocol.unfence(p, c, broker))

    def shut_down(self, broker: int) -> None:
        """Begin a controlled shutdown."""
        self._broker_event(broker, "shutting_down", lambda p, c: self.protocol.controlled_shutdown(p, c, broker))

    def alter_partition(self, number: int, request: AlterPartition) -> str:
        """Answer a leader's AlterPartition request with Kafka's error name."""
        before = self.partitions[number]
        if self._violates("stale-join"):
            blind = request._replace(isr_epochs=tuple((one, NO_EPOCH) for one, _ in request.isr_epochs))
            outcome = self.protocol.alter_partition(before, self.cluster, blind)
            if outcome.error != self.protocol.alter_partition(before, self.cluster, request).error:
                self.violated_at, request = self.offset, blind
        outcome = self.protocol.alter_partition(before, self.cluster, request)
        self._apply_alone(number, outcome, asked=False)
        return outcome.error

    def elect_uncleanly(self, number: int) -> bool:
        """Make an operator's unclean election; whether it had an effect."""
        outcome = self.protocol.elect(self.partitions[number], self.cluster, Election.UNCLEAN)
        return self._apply_alone(number, outcome, asked=True)

    def recover(self, number: int, broker: int) -> int | None:
        """Make an unclean recovery elect a broker; returns the metadata offset of the election, if there was one."""
        before = self.partitions[number]
        if before.leader != NO_LEADER or (before.isr | before.elr) & self.cluster.live:
            return None
        self.reassign(number, (broker, *(one for one in before.replicas if one != broker)))
        self.recovering = True
        took = self.elect_uncleanly(number)
        self.recovering = False
        return self.elections[-1].metadata_offset if took else None

    def sweep(self) -> None:
        """Make the periodic unclean elections."""
        for number, partition in self.partitions.items():
            self._apply_alone(number, self.protocol.sweep(partition, self.cluster), asked=False)

    def reassign(self, number: int, target: tuple[int, ...]) -> bool:
        """Start a reassignment; whether it was accepted."""
        outcome = self.protocol.reassign(self.partitions[number], self.cluster, target)
        return self._apply_alone(number, outcome, asked=False)

    def set_config(self, name: str, value: int) -> None:
        """Set a config of the topic."""
        shown = str(value) if name == MIN_ISR else ("true" if value else "false")
        self._write("configs", resource=f"topic:{TOPIC}", name=name, value=shown)
        cluster = self.cluster
        for number, partition in self.partitions.items():
            if name == MIN_ISR:
                outcome = self.protocol.set_min_isr(partition, cluster, value, topic=True)
                if outcome.partition is not partition:
                    self._put(number, partition, outcome.partition, asked=False)
        if name == MIN_ISR:
            self.cluster = cluster._replace(min_isr=value, topic_min_isr=True)
        else:
            self.cluster = cluster._replace(unclean=UncleanElection.ENABLED if value else UncleanElection.DISABLED)
        self._published()

    def set_elr(self, level: int) -> bool:
        """Set the feature level of the ELR; whether that changed it."""
        if self.cluster.elr == bool(level):
            return False
        self._write("configs", resource=f"feature:{ELR_VERSION}", name="level", value=str(level))
        for number, partition in self.partitions.items():
            outcome = self.protocol.set_elr_feature(partition, self.cluster, bool(level))
            if outcome.partition is not partition:
                self._put(number, partition, outcome.partition, asked=False)
        self.cluster = self.cluster._replace(elr=bool(level))
        self._published()
        return True

    def set_metadata_version(self, level: int) -> None:
        """Raise the metadata.version."""
        self._write("configs", resource=f"feature:{METADATA_VERSION}", name="level", value=str(level))
        self.cluster = self.cluster._replace(metadata_version=level)
        self._published()

    def fail_over(self) -> None:
        """Begin the epoch of another controller."""
        self.epoch += 1
        self.offset += 1

    def _broker_event(self, broker: int, event: str, change: Callable[[Partition, Cluster], Outcome]) -> None:
        cluster = self.cluster
        outcomes = {number: change(partition, cluster) for number, partition in self.partitions.items()}
        after = next(iter(outcomes.values())).cluster if outcomes else change(_NO_PARTITION, cluster).cluster
        changed = {}
        for number, outcome in outcomes.items():
            partition = self._spoil(event, broker, self.partitions[number], outcome.partition, after)
            if partition is not self.partitions[number]:
                changed[number] = partition
        self.cluster = after
        self._registering = frozenset({broker}) if event == "registered" else frozenset()
        first = event in ("registered", "fenced")
        epoch = after.epoch(broker)
        row = {"broker": broker, "event": event, "broker_epoch": epoch, "incarnation": self.incarnations.get(broker)}
        if not first:
            self._write("brokers", **row)
        for number, partition in changed.items():
            self._put(number, self.partitions[number], partition, asked=False)
        if first:
            self._write("brokers", **row)
        self._registering = frozenset()
        self._published()

    def _apply_alone(self, number: int, outcome: Outcome, *, asked: bool) -> bool:
        before = self.partitions[number]
        if outcome.partition is before:
            return False
        self._put(number, before, outcome.partition, asked=asked)
        self._published()
        return True

    def _violates(self, name: str) -> bool:
        return self.violation == name and self.violated_at is None

    def _is_electable(self, broker: int) -> bool:
        return any(broker in one.isr | one.elr for one in self.partitions.values())

    def _spoil(self, event: str, broker: int, before: Partition, after: Partition, cluster: Cluster) -> Partition:
        """Return `after`, or what a controller with the planted violation makes of it."""
        if self.violation is None or self.violated_at is not None or after is before:
            return after
        moved = after.leader >= 0 and after.leader != before.leader
        outside = [one for one in after.replicas if one in cluster.live and one not in before.isr | before.elr]
        spoiled = after
        if self._violates("fenced-stays-in-isr") and event == "fenced" and before.leader not in (broker, NO_LEADER):
            spoiled = before
        elif self._violates("epoch-twice") and moved and before.leader >= 0:
            spoiled = after._replace(leader_epoch=before.leader_epoch)
        elif outside and (
            (self._violates("unclean-past-member") and moved and event == "fenced")
            or (
                self._violates("unclean-not-asked")
                and after.leader == NO_LEADER
                and cluster.unclean is not UncleanElection.ENABLED
            )
        ):
            spoiled = after._replace(
                leader=outside[0],
                isr=frozenset({outside[0]}),
                elr=frozenset(),
                last_known=(),
                recovering=True,
                leader_epoch=before.leader_epoch + 1,
            )
        if spoiled is not after:
            self.violated_at = self.offset
        return spoiled

    def _put(self, number: int, before: Partition | None, after: Partition, *, asked: bool) -> None:
        offset = self.offset
        if before is not None and after.leader >= 0:
            if (after.leader, after.leader_epoch) != (before.leader, before.leader_epoch):
                self.elections.append(self._election(number, before, after, asked=asked))
        elif before is None:
            made = ElectionMade(
                offset, number, self._now(), len(self.elections), after, after, "clean", False, frozenset(), False
            )
            self.elections.append(made)
        self.partitions[number] = after
        self._write(
            "partitions",
            metadata_epoch=self.epoch,
            topic=TOPIC,
            partition=number,
            leader=after.leader,
            leader_epoch=after.leader_epoch,
            partition_epoch=after.partition_epoch,
            replicas=list(after.replicas),
            isr=sorted(after.isr, key=after.replicas.index),
            elr=sorted(after.elr),
            last_known_elr=list(after.last_known),
            adding=sorted(after.adding),
            removing=sorted(after.removing),
            leader_recovery_state=int(after.recovering),
        )

    def _election(self, number: int, before: Partition, after: Partition, *, asked: bool) -> ElectionMade:
        winner, cluster = after.leader, self.cluster
        isr, elr = before.isr, before.elr if cluster.elr else frozenset()
        if cluster.elr:
            isr, elr = isr - self._registering, elr - self._registering
        # The ISR may get empty by this very change, and then the ELR is asked.
        members = isr | elr
        road = "clean"
        if self.recovering:
            road = "recovery"
        elif winner not in members or (after.recovering and not before.recovering):
            road = "last-known" if cluster.elr and before.last_known == (winner,) and not members else "unclean"
        by_config = cluster.unclean is UncleanElection.ENABLED and self.protocol.reads_unclean_config
        passed = (members - {winner}) & cluster.live if road == "unclean" else frozenset()
        return ElectionMade(
            self.offset,
            number,
            self._now(),
            len(self.elections),
            before,
            after,
            road,
            asked or by_config,
            passed,
            self._elr_of.get(winner, False),
        )

    def _write(self, table: str, **columns: Any) -> None:
        row = {"metadata_offset": self.offset, "at_ns": self._now() // MS * MS, **columns}
        self.rows[table].append(row)
        self.offset += 1


_NO_PARTITION = Partition(replicas=(), isr=frozenset())
