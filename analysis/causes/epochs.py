"""What rows, HWs and logs say of each leader epoch: where it began, what it wrote, and what it had committed when.

An epoch is named by its election. An epoch that was used twice proves nothing.
"""

from __future__ import annotations

from bisect import bisect_left

import msgspec
import numpy as np

from analysis.causes.elections import Elections
from analysis.causes.evidence import NEVER, UNKNOWN, Flags, Ints, PartitionEvidence, ReadRows, column


class Covered(msgspec.Struct, frozen=True, eq=False):
    """The earliest time by which an offset was shown to be covered: one that covers a later offset covers it, too."""

    offsets: list[int]
    times: list[int]

    @classmethod
    def of(cls, offsets: Ints, times: Ints) -> Covered:
        """Make the steps of observations: each shows at its time that its offset was covered."""
        order = np.lexsort((times, offsets))
        earliest = np.minimum.accumulate(times[order][::-1])[::-1]
        return cls(offsets[order].tolist(), earliest.tolist())

    def by(self, offset: int) -> int:
        """Return the time by which the offset was covered; `NEVER`: nothing shows that it was."""
        at = bisect_left(self.offsets, offset)
        return self.times[at] if at < len(self.times) else NEVER


class EpochEvidence(msgspec.Struct, kw_only=True, eq=False):
    """What is known of one epoch.

    - `start_max`: it began at or below this offset. `end_min`: its log reached this offset.
    - `offsets`: where rows of it stand. `is_seen`: somebody saw it lead.
    - `committed`: by when its offsets were committed.
    - `appended`: the offsets of its acked records in order; for each place between them, the latest send below it, and
      the earliest ack or read above it.
    """

    start_max: int = NEVER
    end_min: int = 0
    offsets: Ints = column()
    is_seen: bool = False
    committed: Covered = Covered([], [])
    appended: tuple[Ints, Ints, Ints] = (column(), column([0]), column([NEVER]))


class LeaderEpochs:
    """What is known of every leader epoch of a partition.

    - `lost`: the indexes of the sends whose value the final log lacks.
    - `send_epoch`, `send_read_ns`: the epoch of each send, and when a consumer first read it, if that is known.
    - `length_min`: the log of each election's leader surely reached this offset when it was elected.
    """

    def __init__(self, evidence: PartitionEvidence, elections: Elections) -> None:
        self.elections, self._sends, self._marks = elections, evidence.sends, evidence.watermarks
        last = [one.leader for one in elections.states[-1:] if not elections.torn]
        of_last = [log for broker, log in evidence.replicas.items() if broker in last]
        final = ReadRows.joined([evidence.final, *of_last])
        self._logs = [(frozenset(log.epoch.tolist()), log) for log in (*evidence.replicas.values(), evidence.final)]
        self.lost = np.flatnonzero(~np.isin(self._sends.value, final.value))
        rows = ReadRows.joined([evidence.polls, *evidence.replicas.values(), evidence.final])
        self.send_epoch, self.send_read_ns = _found_again(evidence, rows)
        self.of = {at: EpochEvidence() for at in elections.all}
        for at in elections.of_epoch.values():
            self.of[at] = self._of_epoch(evidence, at, rows)
        self._add_sends()

    def _of_epoch(self, evidence: PartitionEvidence, at: int, rows: ReadRows) -> EpochEvidence:
        """Return what rows and HWs say of one epoch."""
        state, polls, marks = self.elections.states[at], evidence.polls, evidence.watermarks
        read, served = polls.epoch == state.leader_epoch, marks.epoch == state.leader_epoch
        hws, times, asked = marks.high_watermark[served], marks.at_ns[served], marks.asked_ns[served]
        # A leader's first HW may be from before its election (docs/findings/stale-latest-offset.md), and so may those
        # that were asked for before its answer. An HW that covers no more than the log had before shows no start.
        sure = hws[(asked > times.min(initial=NEVER)) & (hws > self._inherited(state.leader_epoch))]
        offsets = rows.offset[rows.epoch == state.leader_epoch]
        return EpochEvidence(
            start_max=int(np.concatenate((offsets, sure)).min(initial=NEVER)),
            end_min=max(int(offsets.max(initial=-1)) + 1, int(hws.max(initial=0))),
            offsets=np.unique(offsets),
            is_seen=bool(len(offsets)) or bool((marks.broker[served] == state.leader).any()),
            committed=Covered.of(
                np.concatenate((polls.offset[read], hws - 1)), np.concatenate((polls.at_ns[read], times))
            ),
        )

    def may_end_later(self, elections: int) -> bool:
        """Whether the last leader may be so many elections behind the last known state; HWs show who led since."""
        last = self.elections.states[-1]
        since = self._marks.epoch[self._marks.asked_ns > last.at_ns]
        return not len(since) or bool(since.max() >= last.leader_epoch + elections)

    def _inherited(self, epoch: int) -> int:
        """Return the last offset that the leader of an epoch surely had when it was elected; -1: none is known.

        A log with rows of the epoch has below them what its leader had.
        """
        logs = [log for epochs, log in self._logs if epoch in epochs]
        tops = [log.offset[(log.epoch != UNKNOWN) & (log.epoch < epoch)].max(initial=-1) for log in logs]
        return int(max(tops, default=-1))

    def learn(self, may_have_written: Flags) -> bool:
        """Take what is known of lost sends that only one leader can have appended; return whether anything is new."""
        fits, elections = may_have_written[self.lost], self.elections
        of_epoch = column([elections.states[at].leader_epoch for at in elections.all])
        new = (self.send_epoch[self.lost] == UNKNOWN) & (fits.sum(axis=1) == 1)
        self.send_epoch[self.lost[new]] = fits[new] @ of_epoch
        self._add_sends()
        return bool(new.any())

    def _add_sends(self) -> None:
        """Add what sends of a known epoch say: where it stood, and when offsets were appended and committed."""
        sends = self._sends
        for epoch, at in self.elections.of_epoch.items():
            mine = self.send_epoch == epoch
            if not mine.any():
                continue
            evidence, offset, sent, read = self.of[at], sends.offset[mine], sends.sent_ns[mine], self.send_read_ns[mine]
            evidence.is_seen = True
            evidence.start_max = min(evidence.start_max, int(offset.min()))
            evidence.end_min = max(evidence.end_min, int(offset.max()) + 1)
            evidence.offsets = np.union1d(evidence.offsets, offset)
            order = np.argsort(offset, kind="stable")
            there = np.minimum(sends.done_ns[mine], read)[order]
            sent_below = np.maximum.accumulate([0, *sent[order]])
            evidence.appended = (offset[order], sent_below, np.minimum.accumulate([NEVER, *there[::-1]])[::-1])
        self.length_min, reached = dict[int, int](), dict[int, int]()
        for at, first in self.elections.leadership.items():
            self.length_min[at] = reached.get(first, 0)
            reached[first] = max(self.length_min[at], self.of[at].end_min)

    def sent_below(self, at: int, offset: int) -> int:
        """Return when the latest acked record below an offset was sent, of those of an election; 0: none is known."""
        offsets, sent_ns, _ = self.of[at].appended
        return int(sent_ns[np.searchsorted(offsets, offset)])

    def had(self, at: int, value: int | None, offset: int, writer: int | None = None) -> bool | None:
        """Return whether the leader of an election had a record of an earlier epoch, by what was measured.

        None: nothing says. `value` None: it is not known which record of the election `writer` stood at the offset.
        """
        epoch = self.elections.states[at].leader_epoch
        if self.elections.of_epoch.get(epoch) != at:
            return None
        if self.of[at].start_max <= offset:
            return False
        for log in (log for epochs, log in self._logs if epoch in epochs):
            if value is not None:
                return bool(((log.value == value) & (log.offset == offset)).any())
            # Logs that have a record of one epoch agree below it.
            written = NEVER if writer is None else self.elections.states[writer].leader_epoch
            if ((log.epoch == written) & (log.offset >= offset)).any():
                return True
            if (log.epoch[log.offset == offset] > written).any():
                return False
        return None


def _found_again(evidence: PartitionEvidence, rows: ReadRows) -> tuple[Ints, Ints]:
    """Return for each send the epoch of its rows and when a consumer first read it.

    A row is of the same record if it has its value at its offset. `rows` begin with those of consumers.
    """
    sends = evidence.sends
    value, offset = np.concatenate((rows.value, sends.value)), np.concatenate((rows.offset, sends.offset))
    order = np.lexsort((offset, value))
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = (np.diff(value[order]) != 0) | (np.diff(offset[order]) != 0)
    ids = np.empty(len(order), dtype=np.int64)
    ids[order] = np.cumsum(is_new) - 1
    of_rows, of_sends = ids[: len(rows.value)], ids[len(rows.value) :]
    known, count = rows.epoch != UNKNOWN, int(is_new.sum())
    lowest, highest, read = np.full(count, NEVER), np.full(count, UNKNOWN), np.full(count, NEVER)
    np.minimum.at(lowest, of_rows[known], rows.epoch[known])
    np.maximum.at(highest, of_rows[known], rows.epoch[known])
    np.minimum.at(read, of_rows[: len(evidence.polls.value)], evidence.polls.at_ns)
    return np.where(lowest == highest, lowest, UNKNOWN)[of_sends], read[of_sends]
