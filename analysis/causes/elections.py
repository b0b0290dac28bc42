"""The elections of a partition, and the leaderships that they make up.

An election is a state with a leader that differs from the state before in its leader or its leader epoch. Elections
are named by the index of their state, because a broken controller may use one epoch twice.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from analysis.causes.evidence import NEVER
from ebbtide.record.rows import PartitionState

_NOT_YET = PartitionState(
    metadata_offset=-1, at_ns=0, topic="", partition=-1, leader=-1, leader_epoch=-1, partition_epoch=-1
)
"""Before the partition was created."""


class Elections:
    """What the states of a partition say of who led, in the order of the metadata log.

    - `gap[i]`: a record of the partition is missing right before state `i`; behind the last one, if the log is torn.
    - `hides[i]`: that gap may hide an election.
    - `all`: the indexes of the states that elected a leader.
    - `leadership[i]`: the first election of the leadership of election `i`. A leadership is the elections of one
      leader in a row, with no other leader, no leaderless state and no hidden election between. Its log only grows
      meanwhile.
    - `of_epoch`: the election of each epoch that was used once.
    """

    def __init__(self, states: tuple[PartitionState, ...], *, torn: bool) -> None:
        self.states, self.torn = states, torn
        self.gap, self.hides, self.all = list[bool](), list[bool](), list[int]()
        self.leadership = dict[int, int]()
        for at, (before, after) in enumerate(pairwise((_NOT_YET, *states))):
            has_leader, risen = after.leader >= 0, after.leader_epoch - before.leader_epoch
            self.gap.append(after.partition_epoch != before.partition_epoch + 1)
            self.hides.append(self.gap[at] and risen > int(has_leader))
            if has_leader and (risen != 0 or after.leader != before.leader):
                earlier = self.all[-1] if self.all else at
                leads_on = before.leader == after.leader and not any(self.hides[earlier + 1 : at + 1])
                self.leadership[at] = self.leadership[earlier] if leads_on else at
                self.all.append(at)
        self._elected = frozenset(self.all)
        self.gap.append(torn)
        self.hides.append(torn)
        self.has_gaps = any(self.gap)
        epochs = Counter(states[at].leader_epoch for at in self.all)
        self.of_epoch = {states[at].leader_epoch: at for at in self.all if epochs[states[at].leader_epoch] == 1}
        self.brokers = tuple(sorted({b for one in states for b in (*one.replicas, *one.isr)}))

    def is_election(self, at: int) -> bool:
        """Whether the state elected a leader."""
        return at in self._elected

    def time(self, at: int) -> int:
        """Return the time of a state; the one behind the last never came."""
        return self.states[at].at_ns if at < len(self.states) else NEVER

    def has_gap_between(self, one: int, other: int) -> bool:
        """Whether a record may be missing behind a state, up to another one; `NEVER`: up to the end."""
        return any(self.gap[one + 1 : other + 1])

    def hides_one_before(self, at_ns: int) -> bool:
        """Whether a missing record may hide an election before a time. Nothing says until when its leader appended."""
        times = [0, *(one.at_ns for one in self.states)]
        return any(may_hide and at_ns >= time for may_hide, time in zip(self.hides, times, strict=True))

    def of_leadership(self, at: int) -> frozenset[int]:
        """Return the elections of the leadership of election `at`."""
        return frozenset(one for one in self.all if self.leadership[one] == self.leadership[at])
