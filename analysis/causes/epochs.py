"""What rows, HWs and logs say of each leader epoch: where it began, what it wrote, and what it had committed when.

An epoch is named by its election. An epoch that was used twice proves nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

import msgspec
import numpy as np

from analysis.causes.elections import Elections
from analysis.causes.history import NEVER, UNKNOWN, History, Ints, ReadRows, column


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

    def by_all(self, offsets: Ints) -> Ints:
        """Return the times of many offsets."""
        return column([*self.times, NEVER])[np.searchsorted(column(self.offsets), offsets)]


class EpochEvidence(msgspec.Struct, kw_only=True, eq=False):
    """What is known of one epoch.

    - `start_max`: it began at or below this offset. `end_min`: its log reached this offset.
    - `final_first`, `final_last`: its first and last row in the final log.
    - `offsets`: where rows of it stand. `hw_max`: the highest HW that its leader served; `read_max`: its highest
      offset that a consumer read. `is_seen`: somebody saw it lead.
    - `committed`: by when its offsets were committed; `hw`: the same by its leader's HWs alone.
    - `fresh`: records of it that were acked or shown to be committed, as columns of send time, offset and that time.
    - `appended`: its acked records by offset, each with the latest send up to it and the earliest ack or read from it.
    """

    start_max: int = NEVER
    end_min: int = 0
    final_first: int | None = None
    final_last: int = -1
    offsets: Ints = column()
    hw_max: int = 0
    read_max: int = -1
    is_seen: bool = False
    committed: Covered = Covered([], [])
    hw: Covered = Covered([], [])
    fresh: tuple[Ints, Ints, Ints] = (column(), column(), column())
    appended: tuple[Ints, Ints, Ints] = (column(), column(), column())


class LeaderEpochs:
    """What is known of every leader epoch of a partition."""

    def __init__(self, history: History, elections: Elections) -> None:
        self.elections = elections
        final, torn = history.final, history.cluster.log_torn
        last = elections.states[-1].leader if elections.states and not torn else UNKNOWN
        self._final = _joined([final, *(log for broker, log in history.replicas.items() if broker == last)])
        self._logs = [(frozenset(log.epoch.tolist()), log) for log in history.replicas.values()]
        self.of = {at: EpochEvidence() for at in elections.all}
        polls, logs = history.polls, _joined(history.replicas.values())
        for epoch, at in elections.of_epoch.items():
            self.of[at] = self._evidence(history, at, epoch, polls, logs)
        self.values = np.unique(self._final.value)
        self.is_lost = ~np.isin(history.sends.value, self.values)
        ids = _Ids(_joined([polls, logs, final]), history)
        self.send_epoch, self.send_read_ns = ids.send_epoch, ids.send_read_ns
        self._sends = history.sends
        self.written = dict[int, int]()
        """The lowest offset that a leadership is known to have written, by its first election."""
        self._add_sends()
        self.lower = self._lower_bounds()
        self.began_by = self._ends_of_beginnings()

    def learn(self, epochs: Ints, leaderships: Ints) -> bool:
        """Take what is known of sends that nobody read; return whether anything is new.

        `epochs`, `leaderships`: the epoch of each, and the first election of its leadership; `UNKNOWN`: not known.
        """
        written = {
            first: int(self._sends.offset[leaderships == first].min())
            for first in set(leaderships.tolist()) - {UNKNOWN, NEVER}
        }
        is_more = written != self.written
        self.written = written
        new = (self.send_epoch == UNKNOWN) & (epochs != UNKNOWN)
        self.send_epoch = np.where(new, epochs, self.send_epoch)
        self._add_sends()
        self.lower = self._lower_bounds()
        self.began_by = self._ends_of_beginnings()
        return is_more or bool(new.any())

    def _ends_of_beginnings(self) -> dict[int, int]:
        """Return at or below which offset each leadership began, by its first election."""
        found = dict(self.written)
        for at, first in self.elections.leadership.items():
            found[first] = min(found.get(first, NEVER), self.of[at].start_max)
        return found

    def _evidence(self, history: History, at: int, epoch: int, polls: ReadRows, logs: ReadRows) -> EpochEvidence:
        read, final, kept = polls.epoch == epoch, self._final.epoch == epoch, logs.epoch == epoch
        marks = history.watermarks
        served = marks.epoch == epoch
        hws, times, asked = marks.high_watermark[served], marks.at_ns[served], marks.asked_ns[served]
        # A leader's first HWs may be from before its election: they are if its log had more than they cover.
        sure = hws[(asked > times.min(initial=NEVER)) & (hws > self._inherited(epoch))]
        in_time = polls.at_ns[read] < self.elections.end_ns[at]
        offsets = np.concatenate((polls.offset[read], logs.offset[kept]))
        final_offsets = self._final.offset[final]
        bounds = np.concatenate((offsets, final_offsets, sure))
        covered = np.concatenate((polls.offset[read][in_time], hws - 1))
        covered_at = np.concatenate((polls.at_ns[read][in_time], times))
        return EpochEvidence(
            start_max=int(bounds.min(initial=NEVER)),
            end_min=max(int(offsets.max(initial=-1)) + 1, int(hws.max(initial=0))),
            final_first=int(final_offsets.min()) if len(final_offsets) else None,
            final_last=int(final_offsets.max(initial=-1)),
            offsets=np.unique(offsets),
            hw_max=int(hws.max(initial=0)),
            read_max=int(polls.offset[read].max(initial=-1)),
            is_seen=bool(len(bounds)) or bool((marks.broker[served] == self.elections.states[at].leader).any()),
            committed=Covered.of(covered, covered_at),
            hw=Covered.of(hws - 1, times),
        )

    def _inherited(self, epoch: int) -> int:
        """Return the last offset that the leader of an epoch surely had when it was elected; -1: none is known.

        A log with rows of the epoch has below them what its leader had.
        """
        logs = [log for epochs, log in self._logs if epoch in epochs]
        tops = [log.offset[(log.epoch != UNKNOWN) & (log.epoch < epoch)].max(initial=-1) for log in logs]
        return int(max(tops, default=-1))

    def _add_sends(self) -> None:
        """Add what sends of a known epoch say: where it stood, and when offsets were appended and committed."""
        sends = self._sends
        all_acks = np.where(sends.acks == -1, sends.done_ns, NEVER)
        for epoch, at in self.elections.of_epoch.items():
            mine = self.send_epoch == epoch
            if not mine.any():
                continue
            evidence, offset, sent = self.of[at], sends.offset[mine], sends.sent_ns[mine]
            read = self.send_read_ns[mine]
            evidence.is_seen = True
            evidence.start_max = min(evidence.start_max, int(offset.min()))
            evidence.end_min = max(evidence.end_min, int(offset.max()) + 1)
            evidence.offsets = np.union1d(evidence.offsets, offset)
            in_time = np.where(read < self.elections.end_ns[at], read, NEVER)
            by = np.minimum(np.minimum(all_acks[mine], in_time), evidence.hw.by_all(offset))
            shown = by < NEVER
            evidence.fresh = (sent[shown], offset[shown], by[shown])
            order = np.argsort(offset, kind="stable")
            there = np.minimum(sends.done_ns[mine], read)[order]
            highest_sent = np.maximum.accumulate(sent[order])
            evidence.appended = (offset[order], highest_sent, np.minimum.accumulate(there[::-1])[::-1])

    def _lower_bounds(self) -> dict[int, int]:
        """Return how far the log of each election's leader surely reached when it was elected."""
        found, top = {}, dict[int, int]()
        for at in self.elections.all:
            leadership = self.elections.leadership[at]
            found[at] = top.get(leadership, 0) if leadership != at else 0
            top[leadership] = max(top.get(leadership, 0), self.of[at].end_min)
        return found

    def had(
        self, at: int, value: int | None, offset: int, writer: int | None = None, *, begins: bool = False
    ) -> bool | None:
        """Return whether the leader of an election had a record of an earlier epoch, by what was measured.

        None: nothing says. `value` None: it is not known which record of the election `writer` stood at the offset.
        `begins`: the leader did not lead already by an earlier election of its leadership.
        """
        if begins and self.began_by[self.elections.leadership[at]] <= offset:
            return False
        state = self.elections.states[at]
        if self.elections.of_epoch.get(state.leader_epoch) != at:
            return None
        evidence = self.of[at]
        if evidence.start_max <= offset:
            return False
        if value is not None and evidence.final_first is not None:
            # All that the final log has below the epoch's first row, its leader had.
            return self.keeps(value)
        for epochs, log in self._logs:
            if state.leader_epoch in epochs:
                if value is not None:
                    return bool(((log.value == value) & (log.offset == offset)).any())
                # Logs that have a record of one epoch agree below it.
                if writer is None:
                    return None
                epoch = self.elections.states[writer].leader_epoch
                if ((log.epoch == epoch) & (log.offset >= offset)).any():
                    return True
                if (log.epoch[log.offset == offset] > epoch).any():
                    return False
        return None

    def keeps(self, value: int) -> bool:
        """Return whether the log has the value in the end."""
        place = int(np.searchsorted(self.values, value))
        return place < len(self.values) and int(self.values[place]) == value


class _Ids:
    """Which rows and which sends are of one record: of one value at one offset."""

    def __init__(self, rows: ReadRows, history: History) -> None:
        sends, polls = history.sends, history.polls
        value = np.concatenate((rows.value, sends.value))
        offset = np.concatenate((rows.offset, sends.offset))
        order = np.lexsort((offset, value))
        is_new = np.ones(len(order), dtype=bool)
        is_new[1:] = (np.diff(value[order]) != 0) | (np.diff(offset[order]) != 0)
        ids = np.empty(len(order), dtype=np.int64)
        ids[order] = np.cumsum(is_new) - 1
        count, known = int(is_new.sum()), rows.epoch != UNKNOWN
        of_rows, of_sends = ids[: len(rows.value)], ids[len(rows.value) :]
        lowest, highest = np.full(count, NEVER), np.full(count, UNKNOWN)
        np.minimum.at(lowest, of_rows[known], rows.epoch[known])
        np.maximum.at(highest, of_rows[known], rows.epoch[known])
        epochs = np.where(lowest == highest, lowest, UNKNOWN)
        read = np.full(count, NEVER)
        np.minimum.at(read, of_rows[: len(polls.value)], polls.at_ns)
        self.send_epoch = epochs[of_sends]
        self.send_read_ns = read[of_sends]


def _joined(parts: Iterable[ReadRows]) -> ReadRows:
    found = list(parts)
    return ReadRows(
        value=np.concatenate([column(), *(one.value for one in found)]),
        offset=np.concatenate([column(), *(one.offset for one in found)]),
        epoch=np.concatenate([column(), *(one.epoch for one in found)]),
        at_ns=np.concatenate(
            [column(), *(one.at_ns if len(one.at_ns) else np.full(len(one.value), NEVER) for one in found)]
        ),
    )
