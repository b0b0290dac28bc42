"""Which leaders may have appended a lost record whose leader epoch nobody read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from analysis.causes.epochs import LeaderEpochs
from analysis.causes.history import NEVER, UNKNOWN, History, InForce, Ints, column
from analysis.causes.leaders import Leaders
from analysis.causes.liveness import Liveness
from ebbtide.scenario.roles import CLIENTS

Flags = npt.NDArray[np.bool_]


class Writers:
    """For each lost send, the elections under which it may have been appended: `may_have_written[send, election]`.

    `only_epoch`: the epoch of each lost send that only one election may have led to. `only_leadership`: the first
    election of the leadership to which all these elections belong.
    """

    def __init__(self, history: History, epochs: LeaderEpochs, leaders: Leaders, liveness: Liveness) -> None:
        self._epochs, self._leaders, self._liveness = epochs, leaders, liveness
        sends, elections = history.sends, epochs.elections
        of_epoch = column([elections.states[at].leader_epoch for at in elections.all])
        known = (epochs.send_epoch != UNKNOWN)[:, None]
        possible = [self._possible(at, sends.offset, sends.sent_ns, sends.done_ns) for at in elections.all]
        all_acks = sends.acks == -1
        possible = [
            fits & ~(all_acks & self._lacks_followers(at, history.rules, sends.sent_ns))
            for at, fits in zip(elections.all, possible, strict=True)
        ]
        flags = np.column_stack(possible) if possible else np.zeros((len(sends.offset), 0), dtype=bool)
        self.may_have_written: Flags = np.where(known, epochs.send_epoch[:, None] == of_epoch[None, :], flags)
        # The rules below are those of a lost record, and there are fewer of these.
        lost = np.flatnonzero(epochs.is_lost)
        written = self.may_have_written[lost]
        first = column([elections.leadership[at] for at in elections.all])
        lowest = np.where(written, first, NEVER).min(axis=1, initial=NEVER)
        highest = np.where(written, first, UNKNOWN).max(axis=1, initial=UNKNOWN)
        self.only_epoch: Ints = np.full(len(sends.value), UNKNOWN)
        self.only_epoch[lost] = np.where(written.sum(axis=1) == 1, written @ of_epoch, UNKNOWN)
        self.only_leadership: Ints = np.full(len(sends.value), UNKNOWN)
        self.only_leadership[lost] = np.where(lowest == highest, lowest, UNKNOWN)

    def _possible(self, at: int, offset: Ints, sent: Ints, done: Ints) -> Flags:
        elections, leaders = self._epochs.elections, self._leaders
        state, slack = elections.states[at], self._liveness.slack
        if elections.of_epoch.get(state.leader_epoch) != at:
            return np.ones(len(offset), dtype=bool)
        evidence = self._epochs.of[at]
        if leaders.led[at] is False:
            return np.zeros(len(offset), dtype=bool)
        # The log of a leader only grows: it was long enough already, or not yet.
        fits = offset >= self._epochs.lower[at]
        later = [self._epochs.of[one].start_max for one in elections.of_leadership(at) if one > at]
        fits &= offset < min([*later, NEVER])
        fits &= (done + slack >= elections.began_ns[at]) & (sent <= min(NEVER, leaders.acted_until[at] + slack))
        if evidence.final_first is not None:
            fits &= (offset >= evidence.final_first) & (offset > evidence.final_last)
        fits &= ~np.isin(offset, evidence.offsets)
        appended, highest_sent, there = evidence.appended
        if len(appended):
            # Under one leader, offsets have the order of appends.
            place = np.searchsorted(appended, offset)
            below, above = place > 0, place < len(appended)
            fits &= ~(below & (highest_sent[np.maximum(place - 1, 0)] > done + slack))
            fits &= ~(above & (there[np.minimum(place, len(appended) - 1)] + slack < sent))
        for from_ns, until_ns in self._liveness.silences(CLIENTS, state.leader):
            fits &= ~((sent >= from_ns) & (done <= until_ns))
        return fits

    def _lacks_followers(self, at: int, rules: Sequence[InForce], sent: Ints) -> Flags:
        """Return when min ISR replicas can no longer have followed a leader, so that it acks nothing with acks=all.

        A replica that led later, or joined the ISR of a later leader, no longer follows.
        """
        states, leaders = self._epochs.elections.states, self._leaders
        levels = [one.min_isr for one in rules]
        lowest = 0 if None in levels else min(level for level in levels if level is not None)
        own, gone_ns = states[at], dict[int, int]()
        for later, state in enumerate(states[at + 1 :], at + 1):
            if state.leader_epoch > own.leader_epoch and state.leader >= 0:
                led = {state.leader} if leaders.led.get(later) else set()
                for broker in (leaders.joins(later) | led) - {own.leader}:
                    gone_ns.setdefault(broker, state.at_ns)
        may_be_gone = len({*own.replicas, own.leader}) - lowest
        times = sorted(gone_ns.values())
        since_ns = times[may_be_gone] if 0 <= may_be_gone < len(times) else NEVER
        return np.asarray(sent > min(NEVER, since_ns + self._liveness.slack))
