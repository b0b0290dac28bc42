"""The controller's half of every action: which can happen where, and its effect.

A decision depends on the brokers' control bits and on `SharedState`, never on logs. So there are far
fewer decisions than states, and each is computed once.

The order of the replica list, which breaks ties between electable brokers, is left open: an
election gives one transition for each broker that some order would elect. One cluster can do less,
because its order is fixed. So what holds here holds for every assignment; a counterexample is
replayed under a fixed order before it is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations

from analysis.spec.kip966 import Kip966
from analysis.spec.model import words as w
from analysis.spec.model.bounds import Bounds
from analysis.spec.model.transition import (
    ERASES,
    FLUSHES,
    LOSES,
    PARTITION_BITS,
    PROPOSAL_BITS,
    Action,
    Transition,
    partition_of,
    positions_with,
    transition_of,
    with_bits,
)
from analysis.spec.model.words import SharedState
from analysis.spec.partition import (
    NO_EPOCH,
    NO_ERROR,
    NOBODY,
    AlterPartition,
    Cluster,
    Election,
    LogInfo,
    Outcome,
    Partition,
    UncleanElection,
)
from analysis.spec.protocol import Protocol
from analysis.spec.unclean_recovery import STRATEGIES

_PRESENT_EPOCH, _NEW_EPOCH, _OLD_EPOCH = 1, 2, 0


class Controls:
    """All transitions that need no log, for one variant and one set of bounds."""

    def __init__(self, protocol: Protocol, bounds: Bounds, metadata_version: int) -> None:
        self._protocol = protocol
        self._bounds = bounds
        self._metadata_version = metadata_version
        broker = frozenset({0})
        healthy = Cluster(broker, broker, epochs=(_PRESENT_EPOCH,), metadata_version=metadata_version)
        self._recovering = protocol if isinstance(protocol, Kip966) else None
        self._strategy = UncleanElection.ENABLED if bounds.unclean else STRATEGIES[bounds.unclean_recovery]
        self._sends_epochs = protocol.fetch_epoch(healthy, 0) != NO_EPOCH

    def transitions(self, shared: SharedState, controls: tuple[int, ...]) -> Iterator[Transition]:
        """Yield what processes, sessions, the controller and operators can do here."""
        for broker in range(len(controls)):
            yield from self._broker_transitions(shared, controls, broker)
        if shared.in_flight:
            yield from self._deliveries(shared, controls)
        if self._recovering and any(control & w.ANSWERED for control in controls):
            yield from self._recoveries(shared, controls)
        if shared.leader_min_isr != shared.min_isr:
            yield Transition(Action("apply-config"), shared._replace(leader_min_isr=shared.min_isr), controls)
        if shared.admin < self._bounds.admin:
            for kind in self._bounds.admin_kinds:
                yield from self._admin_requests(kind, shared._replace(admin=shared.admin + 1), controls)

    def _broker_transitions(self, shared: SharedState, controls: tuple[int, ...], broker: int) -> Iterator[Transition]:
        control, bounds = controls[broker], self._bounds
        if not control & (PARTITION_BITS | w.PROPOSED):
            return
        protocol = self._protocol
        if control & w.UNFENCED and (bounds.cuts or not control & w.UP):
            yield from self._outcomes(
                Action("fence", broker), shared, controls, lambda p, c: protocol.fence(p, c, broker)
            )
        if control & w.UP:
            if control & w.REGISTERED and not control & w.UNFENCED:
                yield from self._outcomes(
                    Action("unfence", broker), shared, controls, lambda p, c: protocol.unfence(p, c, broker)
                )
            yield from self._takedowns(shared, controls, broker)
        elif not control & w.UNFENCED:
            yield from self._starts(shared, controls, broker)
            electable = control & (w.IN_ISR | w.IN_ELR)
            if shared.disks < bounds.disks or (shared.disks < bounds.disks_outside and not electable):
                yield Transition(
                    Action("replace-disk", broker),
                    shared._replace(disks=shared.disks + 1),
                    with_bits(controls, broker, clear=w.CLEAN),
                    disks=((broker, ERASES),),
                )

    def _takedowns(self, shared: SharedState, controls: tuple[int, ...], broker: int) -> Iterator[Transition]:
        bounds, protocol = self._bounds, self._protocol
        if bounds.in_turn and not _is_whole(shared, controls):
            return
        down = with_bits(controls, broker, clear=w.UP)
        if shared.power_losses < bounds.power_losses:
            spent = shared._replace(power_losses=shared.power_losses + 1)
            yield Transition(Action("power-loss", broker), spent, down, disks=((broker, LOSES),))
        if shared.kills < bounds.kills:
            yield Transition(Action("kill", broker), shared._replace(kills=shared.kills + 1), down)
        if shared.stops < bounds.stops and controls[broker] & w.UNFENCED:

            def stop(partition: Partition, cluster: Cluster) -> Outcome:
                first = protocol.controlled_shutdown(partition, cluster, broker)
                return protocol.fence(first.partition, first.cluster, broker)

            for transition in self._outcomes(
                Action("stop", broker), shared._replace(stops=shared.stops + 1), controls, stop
            ):
                stopped = with_bits(transition.controls, broker, clear=w.UP, add=w.CLEAN)
                yield transition._replace(controls=stopped, disks=(*transition.disks, (broker, FLUSHES)))

    def _starts(self, shared: SharedState, controls: tuple[int, ...], broker: int) -> Iterator[Transition]:
        control = controls[broker]
        previous = _PRESENT_EPOCH if control & w.CLEAN else NO_EPOCH
        up = with_bits(controls, broker, clear=w.CLEAN, add=w.UP | (w.STALE if control & w.PROPOSED else 0))
        yield from self._outcomes(
            Action("start", broker),
            shared,
            up,
            lambda p, c: self._protocol.register(p, c, broker, epoch=_NEW_EPOCH, previous_epoch=previous),
        )

    def _deliveries(self, shared: SharedState, controls: tuple[int, ...]) -> Iterator[Transition]:
        members = tuple(
            (broker, (_OLD_EPOCH if control & w.STALE else _PRESENT_EPOCH) if self._sends_epochs else NO_EPOCH)
            for broker, control in enumerate(controls)
            if control & w.PROPOSED
        )
        leader = next(broker for broker, control in enumerate(controls) if control & w.LEADER)
        request = AlterPartition(leader, 0, 0, members, broker_epoch=_PRESENT_EPOCH)
        arrived = shared._replace(in_flight=False)
        landed = tuple(control & ~PROPOSAL_BITS for control in controls)
        yield from self._outcomes(
            Action("deliver", leader),
            arrived,
            landed,
            lambda p, c: self._protocol.alter_partition(p, c, request),
            answered=True,
        )

    def _admin_requests(self, kind: str, shared: SharedState, controls: tuple[int, ...]) -> Iterator[Transition]:
        protocol = self._protocol
        if kind in ("reassign", "move"):
            yield from self._reassignments(shared, controls, 1 if kind == "reassign" else self._bounds.rf)
        elif kind in ("raise-min-isr", "lower-min-isr"):
            above = range(shared.min_isr + 1, self._bounds.rf + 1)
            for value in above if kind == "raise-min-isr" else range(1, shared.min_isr):
                yield from self._min_isr_changes(shared, controls, value)
        elif kind == "feature":
            wanted = not shared.elr
            if protocol.has_elr:
                yield from self._outcomes(
                    Action("set-feature", detail=int(wanted)),
                    shared,
                    controls,
                    lambda p, c: protocol.set_elr_feature(p, c, wanted),
                )
        elif kind == "unregister":
            for broker, control in enumerate(controls):
                if control & w.REGISTERED and not control & (w.UP | w.UNFENCED):
                    yield from self._unregistrations(shared, controls, broker)
        elif kind == "first-partition":
            for count in range(1, self._bounds.rf + 1):
                if count != (shared.first_replicas or self._bounds.rf):
                    yield Transition(
                        Action("resize-first-partition", detail=count),
                        shared._replace(first_replicas=count),
                        controls,
                    )
        elif kind == "preferred":
            yield from self._elections(Election.PREFERRED, shared, controls)
        elif kind == "unclean":
            yield from self._elections(Election.UNCLEAN, shared, controls)
        elif kind == "designate":
            for broker in range(len(controls)):
                yield from self._designations(shared, controls, broker)

    def _reassignments(self, shared: SharedState, controls: tuple[int, ...], smallest: int) -> Iterator[Transition]:
        protocol, brokers = self._protocol, range(len(controls))
        present = {broker for broker in brokers if controls[broker] & w.REPLICA}
        registered = [broker for broker in brokers if controls[broker] & w.REGISTERED]
        for size in range(smallest, self._bounds.rf + 1):
            for target in combinations(registered, size):
                if set(target) == present:
                    continue

                def reassign(p: Partition, c: Cluster, target: tuple[int, ...] = target) -> Outcome:
                    return protocol.reassign(p, c, tuple(sorted(target, key=p.replicas[:1].count, reverse=True)))

                wanted = sum(1 << broker for broker in target)
                yield from self._outcomes(Action("reassign", detail=wanted), shared, controls, reassign)
        if any(control & (w.ADDING | w.REMOVING) for control in controls):
            yield from self._outcomes(Action("cancel-reassignment"), shared, controls, protocol.cancel_reassignment)

    def _min_isr_changes(self, shared: SharedState, controls: tuple[int, ...], value: int) -> Iterator[Transition]:
        """Yield the changes of min.insync.replicas to a value.

        The leader's broker may read it from the metadata log some time later.
        """
        for transition in self._outcomes(
            Action("set-min-isr", detail=value),
            shared,
            controls,
            lambda p, c: self._protocol.set_min_isr(p, c, value, topic=True),
        ):
            applied = shared.leader_min_isr if self._bounds.late_configs else value
            after = transition.shared._replace(min_isr=value, leader_min_isr=applied)
            yield transition._replace(shared=after)

    def _unregistrations(self, shared: SharedState, controls: tuple[int, ...], broker: int) -> Iterator[Transition]:
        for transition in self._outcomes(
            Action("unregister", broker), shared, controls, lambda p, c: self._protocol.unregister(p, c, broker)
        ):
            stale = w.STALE if transition.controls[broker] & w.PROPOSED else 0
            yield transition._replace(controls=with_bits(transition.controls, broker, add=stale))

    def _elections(self, election: Election, shared: SharedState, controls: tuple[int, ...]) -> Iterator[Transition]:
        for transition in self._outcomes(
            Action("elect-preferred" if election == Election.PREFERRED else "elect-unclean"),
            shared,
            controls,
            lambda p, c: self._protocol.elect(p, c, election),
            orders_matter=True,
        ):
            yield transition._replace(forgiven=election == Election.UNCLEAN)

    def _designations(self, shared: SharedState, controls: tuple[int, ...], broker: int) -> Iterator[Transition]:
        for transition in self._outcomes(
            Action("designate", broker), shared, controls, lambda p, c: self._protocol.designate(p, c, broker)
        ):
            yield transition._replace(forgiven=True)

    def may_answer(self, shared: SharedState, controls: tuple[int, ...]) -> tuple[int, ...]:
        """Return the brokers whose log an unclean recovery asks for, if one is due."""
        if not self._recovering:
            return ()
        cluster = self.cluster(shared, controls)
        first = next(broker for broker, control in enumerate(controls) if control & w.REPLICA)
        if not self._recovering.is_recovery_due(partition_of(shared, controls, first), cluster):
            return ()
        live = sorted(cluster.live)
        return tuple(at for at in live if controls[at] & w.UP and controls[at] & w.REPLICA)

    def _recoveries(self, shared: SharedState, controls: tuple[int, ...]) -> Iterator[Transition]:
        """Yield what becomes of the answers: an election, or a new controller without them.

        A timeout may pass at any time, so an election may happen with any answers that suffice.
        """
        answers = tuple(_answer(broker, control) for broker, control in enumerate(controls) if control & w.ANSWERED)
        mask = sum(1 << answer.broker for answer in answers)
        yield from self._outcomes(
            Action("recover", detail=mask), shared, controls, lambda p, c: self._protocol.recover(p, c, answers)
        )
        forgotten = tuple(control & ~w.ANSWER_BITS for control in controls)
        yield Transition(Action("change-controller"), shared, forgotten)

    def _aged_answers(
        self, protocol: Kip966, before: Partition, known: Cluster, outcome: Outcome, controls: tuple[int, ...]
    ) -> tuple[int, ...]:
        """Return the control bits with every answer that an event made stale.

        An answer that the rule voids by an epoch stays void, because epochs only grow. So it is
        dropped at once.
        """
        partition, cluster = outcome.partition, outcome.cluster
        all_live = cluster._replace(unfenced=cluster.registered, shutting_down=NOBODY, offline=NOBODY)
        aged = list(controls)
        for broker, control in enumerate(controls):
            if not control & w.ANSWERED:
                continue
            if protocol.choose(partition, all_live, (_answer(broker, control),)).void:
                aged[broker] = control & ~w.ANSWER_BITS
                continue
            if cluster.epoch(broker) != known.epoch(broker):
                aged[broker] |= w.OLD_INCARNATION
            if partition.leader_epoch != before.leader_epoch:
                aged[broker] |= w.OLD_LEADER_EPOCH
        return tuple(aged)

    def _outcomes(
        self,
        action: Action,
        shared: SharedState,
        controls: tuple[int, ...],
        decide: Callable[[Partition, Cluster], Outcome],
        *,
        answered: bool = False,
        orders_matter: bool = False,
    ) -> Iterator[Transition]:
        """Yield one transition for each different outcome of the replica list's order."""
        cluster = self.cluster(shared, controls)
        replicas = [broker for broker, control in enumerate(controls) if control & w.REPLICA]
        seen: set[tuple[SharedState, tuple[int, ...]]] = set()
        for first in replicas:
            before = partition_of(shared, controls, first)
            outcome = decide(before, cluster)
            if outcome.error != NO_ERROR and outcome.partition == before and action.kind not in ("deliver", "start"):
                continue
            transition = transition_of(action, shared, controls, before, outcome, answered=answered)
            if self._recovering:
                aged = self._aged_answers(self._recovering, before, cluster, outcome, transition.controls)
                transition = transition._replace(controls=aged)
            if (transition.shared, transition.controls) not in seen:
                seen.add((transition.shared, transition.controls))
                yield transition
            if not orders_matter and transition.elected < 0:
                break  # nobody was elected: the order did not matter

    def cluster(self, shared: SharedState, controls: tuple[int, ...]) -> Cluster:
        """Return what the controller knows of the brokers, numbered by their positions."""
        min_isr = min(shared.min_isr, shared.first_replicas or shared.min_isr)
        return Cluster(
            registered=positions_with(controls, w.REGISTERED),
            unfenced=positions_with(controls, w.UNFENCED),
            shutting_down=positions_with(controls, w.SHUTTING_DOWN),
            epochs=tuple(_PRESENT_EPOCH if control & w.REGISTERED else NO_EPOCH for control in controls),
            min_isr=min_isr,
            topic_min_isr=True,
            elr=shared.elr,
            unclean=self._strategy,
            metadata_version=self._metadata_version,
            recovery_manager=self._bounds.recovery_manager,
        )


def _is_whole(shared: SharedState, controls: tuple[int, ...]) -> bool:
    """Return whether every replica runs, is unfenced and is in the ISR, and nothing is in flight."""
    whole = w.UP | w.UNFENCED | w.IN_ISR
    return not shared.in_flight and all(control & whole == whole for control in controls if control & w.REPLICA)


def _answer(broker: int, control: int) -> LogInfo:
    """Return the answer that the control bits of a broker hold.

    The number of a log's last record stands for its epoch (`analysis.spec.model.words`).
    """
    log = control >> w.ANSWER_AT & w.LOG
    return LogInfo(
        broker,
        _OLD_EPOCH if control & w.OLD_INCARNATION else _PRESENT_EPOCH,
        log.bit_length(),
        log.bit_count(),
        -1 if control & w.OLD_LEADER_EPOCH else 0,
    )
