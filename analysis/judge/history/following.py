"""Says whether a replica has followed an elected leader, and so has cut its log to that leader's."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pyarrow.compute as pc

from analysis.record.elections import ElectionEvent
from analysis.record.files import of_partition
from analysis.record.record import Record
from ebbtide.record.rows import PartitionState


def has_followed(
    record: Record,
    broker: int,
    elected: ElectionEvent,
    states: Sequence[PartitionState],
    passed: pc.Expression | None,
) -> bool:
    """Return whether a broker joined the ISR in these states, or was in it all the time while the HW passed an offset.

    The HW passes an offset only when each member of the ISR has the leader's record there. `passed` matches rows of
    such HWs; None: the offset is not known.
    """
    in_sync = [broker in one.isr for one in states]
    if any(not before and after for before, after in pairwise(in_sync)):
        return True
    if passed is None or not all(in_sync):
        return False
    of_leader = of_partition(elected.after.topic, elected.after.partition) & (pc.field("leader_epoch") == elected.epoch)
    return record.has_row("watermarks", of_leader & passed)
