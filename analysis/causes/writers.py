"""Which leaders may have appended a record whose leader epoch nobody read."""

from __future__ import annotations

import numpy as np

from analysis.causes.epochs import LeaderEpochs
from analysis.causes.evidence import NEVER, UNKNOWN, Flags, PartitionEvidence, column
from analysis.causes.leaders import Leaders
from analysis.causes.liveness import Liveness
from ebbtide.scenario.roles import CLIENTS


def may_have_written(evidence: PartitionEvidence, epochs: LeaderEpochs, leaders: Leaders, liveness: Liveness) -> Flags:
    """Return for each send the elections under which it may have been appended: `found[send, election]`."""
    elections, sends = epochs.elections, evidence.sends
    possible = np.zeros((len(sends.value), len(elections.all)), dtype=bool)
    for place, at in enumerate(elections.all):
        possible[:, place] = _fits(at, evidence, epochs, leaders, liveness)
    of_epoch = column([elections.states[at].leader_epoch for at in elections.all])
    known = epochs.send_epoch[:, None]
    found: Flags = np.where(known != UNKNOWN, known == of_epoch[None, :], possible)
    return found


def _fits(at: int, evidence: PartitionEvidence, epochs: LeaderEpochs, leaders: Leaders, liveness: Liveness) -> Flags:
    """Return which sends the leader of an election may have appended."""
    elections, slack, sends = epochs.elections, liveness.slack, evidence.sends
    state, offset, sent, done = elections.states[at], sends.offset, sends.sent_ns, sends.done_ns
    if leaders.led[at] is False:
        return np.zeros(len(offset), dtype=bool)
    # The log of a leader only grows: it was long enough already, or not yet.
    later = [epochs.of[one].start_max for one in elections.of_leadership(at) if one > at]
    fits: Flags = (offset >= epochs.length_min[at]) & (offset < min([*later, NEVER]))
    fits &= (sends.acks != -1) | (sent <= min(NEVER, _acks_nothing_since(at, evidence, leaders) + slack))
    fits &= (done + slack >= elections.began_ns[at]) & (sent <= min(NEVER, leaders.acted_until[at] + slack))
    fits &= ~np.isin(offset, epochs.of[at].offsets)
    # Under one leader, offsets have the order of appends.
    appended, sent_below, there_above = epochs.of[at].appended
    place = np.searchsorted(appended, offset)
    fits &= (sent_below[place] <= done + slack) & (there_above[place] + slack >= sent)
    for from_ns, until_ns in liveness.silences(CLIENTS, state.leader):
        fits &= ~((sent >= from_ns) & (done <= until_ns))
    return fits


def _acks_nothing_since(at: int, evidence: PartitionEvidence, leaders: Leaders) -> int:
    """Return since when fewer than min ISR replicas can follow a leader, so that it acks nothing with acks=all.

    A replica that led later, or joined the ISR of a later leader, no longer follows.
    """
    own, lowest = evidence.states[at], min(rules.min_isr or 0 for rules in evidence.rules)
    following = set(own.replicas)
    for later, state in enumerate(evidence.states[at + 1 :], at + 1):
        if state.leader_epoch > own.leader_epoch:
            gone = leaders.joins(later) | ({state.leader} if leaders.led.get(later) else set())
            following -= gone - {own.leader}
            if len(following) < lowest:
                return state.at_ns
    return NEVER
