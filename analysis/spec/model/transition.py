"""Translates control bits to the controller's input, and its outcome back to them."""

from __future__ import annotations

from typing import NamedTuple

from analysis.spec.model import words as w
from analysis.spec.model.words import SharedState
from analysis.spec.partition import NO_LEADER, Brokers, Outcome, Partition

LOSES, ERASES, FLUSHES = 1, 2, 3
"""What an action does to a broker's log: cut it to what was flushed, delete, flush."""

PARTITION_BITS = w.REPLICA | w.ADDING | w.REMOVING | w.IN_ISR | w.IN_ELR | w.LAST_KNOWN | w.LAST_LEADER | w.LEADER
_CLUSTER_BITS = w.REGISTERED | w.UNFENCED | w.SHUTTING_DOWN
PROPOSAL_BITS = w.PROPOSED | w.STALE


class Action(NamedTuple):
    """What happens, to which broker, and how.

    The broker is its position in the state; -1: none. How it happens is a mask or a number.
    """

    kind: str
    broker: int = -1
    detail: int = 0


class Transition(NamedTuple):
    """An action and its effect.

    `elected` is the broker that began a leader epoch (-1: none); `disks` are the effects on logs.
    `forgiven`: the election was an operator's unclean one, so the protocol is not to blame for its
    losses.
    """

    action: Action
    shared: SharedState
    controls: tuple[int, ...]
    elected: int = -1
    disks: tuple[tuple[int, int], ...] = ()
    forgiven: bool = False


def partition_of(shared: SharedState, controls: tuple[int, ...], first: int) -> Partition:
    """Return the controller's record, with `first` at the head of the replica list.

    Every epoch is 0.
    """
    replicas = [broker for broker, control in enumerate(controls) if control & w.REPLICA]
    return Partition(
        replicas=(first, *(broker for broker in replicas if broker != first)),
        isr=positions_with(controls, w.IN_ISR),
        elr=positions_with(controls, w.IN_ELR),
        last_known=_last_known(shared, controls),
        adding=positions_with(controls, w.ADDING),
        removing=positions_with(controls, w.REMOVING),
        leader=_position(controls, w.LEADER),
        recovering=shared.recovering,
        last_known_leader=_position(controls, w.LAST_LEADER),
    )


def transition_of(
    action: Action,
    shared: SharedState,
    controls: tuple[int, ...],
    before: Partition,
    outcome: Outcome,
    *,
    answered: bool,
) -> Transition:
    """Return `action` with the outcome that the controller made of it.

    `answered`: the leader learns of it by an answer.
    """
    partition, cluster = outcome.partition, outcome.cluster
    changed = partition.partition_epoch != before.partition_epoch
    keep = ~(PARTITION_BITS | _CLUSTER_BITS | (PROPOSAL_BITS if changed else 0))
    after: list[int] = []
    disks: list[tuple[int, int]] = []
    for broker, control in enumerate(controls):
        control &= keep
        for flag, holders in (
            (w.REPLICA, partition.replicas),
            (w.ADDING, partition.adding),
            (w.REMOVING, partition.removing),
            (w.IN_ISR, partition.isr),
            (w.IN_ELR, partition.elr),
            (w.LAST_KNOWN, partition.last_known),
            (w.REGISTERED, cluster.registered),
            (w.UNFENCED, cluster.unfenced),
            (w.SHUTTING_DOWN, cluster.shutting_down),
        ):
            if broker in holders:
                control |= flag
        if broker == partition.leader:
            control |= w.LEADER
        if broker == partition.last_known_leader:
            control |= w.LAST_LEADER
        after.append(control)
        # A broker deletes the log of a replica that it no longer has, as soon as it runs and learns
        # of it.
        if control & w.UP and not control & w.REPLICA and controls[broker] & (w.REPLICA | w.UP):
            disks.append((broker, ERASES))
    shared = shared._replace(
        elr=cluster.elr, recovering=partition.recovering, nobody_known=NO_LEADER in partition.last_known
    )
    if changed:
        shared = shared._replace(in_flight=False)
        if not answered:
            # The leader read this change in the metadata log, and every config before it.
            shared = shared._replace(leader_min_isr=shared.min_isr)
    began = partition.leader_epoch != before.leader_epoch and partition.leader >= 0
    return Transition(action, shared, tuple(after), partition.leader if began else -1, tuple(disks))


def _last_known(shared: SharedState, controls: tuple[int, ...]) -> tuple[int, ...]:
    if shared.nobody_known:
        return (NO_LEADER,)
    return tuple(broker for broker, control in enumerate(controls) if control & w.LAST_KNOWN)


def positions_with(controls: tuple[int, ...], flag: int) -> Brokers:
    """Return the positions whose control bits have `flag`."""
    return frozenset([broker for broker, control in enumerate(controls) if control & flag])


def _position(controls: tuple[int, ...], flag: int) -> int:
    """Return the one position with `flag`, `NO_LEADER` if there is none."""
    return next((broker for broker, control in enumerate(controls) if control & flag), NO_LEADER)


def with_bits(controls: tuple[int, ...], broker: int, *, clear: int = 0, add: int = 0) -> tuple[int, ...]:
    """Return the control bits with those of one broker changed."""
    return (*controls[:broker], controls[broker] & ~clear | add, *controls[broker + 1 :])
