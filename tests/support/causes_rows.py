"""One hand-made history for each row of the table of causes; what a test passes changes one thing in it."""

from __future__ import annotations

from typing import Any

from causes_by_hand import OFFSET, OTHER, disk, down, elect, event, partition, rows, rules, state
from msgspec import structs

from analysis.causes.evidence import ReadRows
from analysis.causes.partition import EvidentPartition

ALL, ALONE = state(0, 1, 1, 0, (1, 2, 3)), state(0, 1, 1, 0, (1,))
"""Broker 1 leads, with everybody in the ISR or alone in it."""


def replaced_under(epoch: int) -> ReadRows:
    """Return a final log that has another record at the offset, of that leader epoch."""
    return rows((OTHER, OFFSET, epoch))


def uncommitted(**fields: Any) -> EvidentPartition:
    """Broker 1 acks with acks=1 and dies; broker 2 leads, and its epoch begins at the offset."""
    return partition(ALL, state(1, 5, 2, 1, (2, 3)), **{"final": replaced_under(1), "downs": (down(1, 3),), **fields})


def recovered(**fields: Any) -> EvidentPartition:
    """Broker 1 dies, and ISR and ELR get empty; a `recover` step elects broker 2."""
    fields = {
        "rules": (rules(elr=True, min_isr=2),),
        "requests": (elect(7, elected_at=20, is_recovery=True),),
        "downs": (down(1, 3),),
        **fields,
    }
    elected = state(2, 8, 2, 2, (2,), leader_recovery_state=1)
    return partition(ALONE, state(1, 4, -1, 1, ()), elected, final=replaced_under(2), **fields)


_LAST_KNOWN = (
    state(0, 1, 1, 0, (1, 2)),
    state(1, 4, 1, 0, (1,), elr=(2,)),
    state(2, 5, -1, 1, (1,), elr=(2,)),
    state(3, 6, -1, 1, (1,)),
    state(4, 7, -1, 1, (), last_known_elr=(1,)),
    state(5, 9, 1, 2, (1,), leader_recovery_state=1),
)
"""Two of the disks lose the record; broker 1 is elected as the last known leader."""
_TWO_DISKS: dict[str, Any] = {"disks": (disk(2, 3, 6), disk(1, 4.5, 6)), "downs": (down(2, 3, 5), down(1, 4.5, 6.5))}


def last_known(min_isr: int | None = 2, **fields: Any) -> EvidentPartition:
    """Two of the disks lose the record; broker 1 is elected as the last known leader."""
    fields = {
        "rules": (rules(elr=True, min_isr=min_isr),),
        "final": replaced_under(2),
        **_TWO_DISKS,
        **fields,
    }
    return partition(*_LAST_KNOWN, **fields)


def unclean(**fields: Any) -> EvidentPartition:
    """Broker 1 wrote alone and dies; broker 2 is elected from outside the ISR."""
    fields = {"rules": (rules(unclean=True),), "downs": (down(1, 3),), "final": replaced_under(2), **fields}
    return partition(ALONE, state(1, 4, -1, 1, (1,)), state(2, 8, 2, 2, (2,), leader_recovery_state=1), **fields)


def stale_join(*known: Any, **fields: Any) -> EvidentPartition:
    """Broker 2 loses its disk and is in the ISR again by a request from before; broker 1 dies."""
    fields = {
        "rules": known or (rules(kip_903=False),),
        "disks": (disk(2, 4, 6),),
        "downs": (down(2, 4, 4.2), down(1, 6)),
        "broker_events": (event(1, 0.5, 2, "registered"), event(15, 4.5, 2, "registered")),
        "final": replaced_under(1),
        **fields,
    }
    joined = state(2, 5, 1, 0, (1, 2, 3))
    return partition(ALL, state(1, 3, 1, 0, (1, 3)), joined, state(3, 7, 2, 1, (2, 3)), **fields)


def stale_join_then_disk() -> EvidentPartition:
    """Broker 2 is in the ISR by a request from before its disk loss; it loses its disk again, alone in the ISR."""
    return partition(
        ALL,
        state(1, 3, 1, 0, (1, 3)),
        state(2, 5, 1, 0, (1, 2, 3)),
        state(3, 6.5, 2, 1, (2,)),
        state(4, 7.5, -1, 2, (2,)),
        state(5, 9, 2, 3, (2,)),
        rules=(rules(kip_903=False),),
        disks=(disk(2, 4, 6), disk(2, 6)),
        downs=(down(2, 4, 4.2), down(1, 5.8), down(2, 6, 8)),
        broker_events=tuple(event(at, at_s, 2, "registered") for at, at_s in ((1, 0.5), (15, 4.5), (45, 8.5))),
        final=replaced_under(3),
    )


def every_disk(*brokers: int, **fields: Any) -> EvidentPartition:
    """The disks of these brokers lose the record at once; broker 1 is elected from the ISR."""
    fields = {
        "disks": tuple(disk(one, 4, 6) for one in brokers),
        "downs": tuple(down(one, 4, 5) for one in brokers),
        "final": replaced_under(2),
        **fields,
    }
    return partition(ALL, state(1, 4.5, -1, 1, (1, 2, 3)), state(2, 6, 1, 2, (1, 2, 3)), **fields)


def last_replica(isr: tuple[int, ...] = (1,), **fields: Any) -> EvidentPartition:
    """The ISR shrinks to broker 1, its disk loses the record, and it is elected again."""
    fields = {"disks": (disk(1, 4, 6),), "downs": (down(1, 4, 5),), "final": replaced_under(2), **fields}
    return partition(ALL, state(1, 3, 1, 0, isr), state(2, 4.5, -1, 1, isr), state(3, 6, 1, 2, isr), **fields)


def never_had(**fields: Any) -> EvidentPartition:
    """Broker 3 is in the ISR when the record is committed; its disk ended below it, and it is elected."""
    fields = {"disks": (disk(3, 4, 4, 2),), "downs": (down(1, 3), down(3, 4, 5)), **fields}
    shrunk = state(1, 3.5, 3, 1, (3,))
    return partition(
        ALL, shrunk, state(2, 4.5, -1, 2, (3,)), state(3, 6, 3, 3, (3,)), final=replaced_under(3), **fields
    )


def led_by_name(first: tuple[int, ...] = (1,), *, missing: bool = False, **fields: Any) -> EvidentPartition:
    """Broker 2 is elected from outside the ISR, dies, perhaps without having led, and is elected again from the ISR.

    `first` is the ISR in which broker 1 wrote the record. `missing`: a record is, before the first of these elections.
    """
    fields = {
        "rules": (rules(unclean=True),),
        "downs": (down(1, 3), down(2, 7, 9)),
        "broker_events": (event(1, 0.5, 2, "registered"), event(35, 10, 2, "registered")),
        "final": replaced_under(4),
        **fields,
    }
    then = [2, 3, 4] if not missing else [3, 4, 5]
    return partition(
        state(0, 1, 1, 0, first),
        state(1, 4, -1, 1, (1,)),
        state(2, 8, 2, 2, (2,), leader_recovery_state=1, partition_epoch=then[0]),
        state(3, 8.5, -1, 3, (2,), leader_recovery_state=1, partition_epoch=then[1]),
        state(4, 12, 2, 4, (2,), leader_recovery_state=1, partition_epoch=then[2]),
        **fields,
    )


def brought_back(*before: Any, at: int, **fields: Any) -> EvidentPartition:
    """Behind `before`, which ends with state `at - 1`, broker 1 brings the record back, and broker 3 lacks it again."""
    return partition(
        *before,
        state(at, 13, 1, at, (1,), leader_recovery_state=1),
        state(at + 1, 15, 3, at + 1, (3,), leader_recovery_state=1),
        **{"rules": (rules(unclean=True),), "final": replaced_under(at + 1), **fields},
    )


def led_as_last_known(*known: Any, **fields: Any) -> EvidentPartition:
    """Broker 1 is elected as the last known leader, without the record, and again from the ISR."""
    fields = {
        "rules": known,
        **_TWO_DISKS,
        "broker_events": tuple(event(at, at_s, 1, "registered") for at, at_s in ((1, 0.5), (41, 7.5), (65, 10.5))),
        "final": replaced_under(4),
        **fields,
    }
    return partition(
        *_LAST_KNOWN,
        state(6, 9.2, -1, 3, (1,), leader_recovery_state=1),
        state(7, 11, 1, 4, (1,), leader_recovery_state=1),
        **fields,
    )


def lacking_member(*partition_epochs: int, **fields: Any) -> EvidentPartition:
    """Broker 2 is elected from the ISR without a committed record; the epochs of the states may show missing ones."""
    states = (state(0, 1, 1, 0, (1, 2)), state(1, 5, 2, 1, (2,)), state(2, 7, 2, 1, (2, 3)))
    numbered = [
        structs.replace(one, partition_epoch=epoch) for one, epoch in zip(states, partition_epochs, strict=True)
    ]
    return partition(*numbered, final=replaced_under(1), downs=(down(1, 3),), **fields)
