"""Which leaders may have appended a record whose leader epoch nobody read."""

from __future__ import annotations

from itertools import takewhile

import numpy as np

from analysis.causes.elections import Elections
from analysis.causes.epochs import LeaderEpochs
from analysis.causes.evidence import NEVER, UNKNOWN, Flags, PartitionEvidence, column
from analysis.causes.leaders import Leaders
from analysis.causes.liveness import Liveness
from ebbtide.scenario.words import CLIENTS


def may_have_written(evidence: PartitionEvidence, epochs: LeaderEpochs, leaders: Leaders, liveness: Liveness) -> Flags:
    """Return for each send the elections under which it may have been appended: `found[send, election]`.

    An ack with acks=all that no leader of the correct protocol can have given may be of any leader that fits otherwise.
    """
    elections, sends = epochs.elections, evidence.sends
    possible = np.zeros((len(sends.value), len(elections.all)), dtype=bool)
    allowed = np.zeros_like(possible)
    for place, at in enumerate(elections.all):
        possible[:, place] = _fits(at, evidence, epochs, leaders, liveness)
        may_have_all = _may_have_all(at, evidence, elections, leaders, liveness)
        allowed[:, place] = possible[:, place] & ((sends.acks != -1) | may_have_all)
    fitting: Flags = np.where(allowed.any(axis=1, keepdims=True), allowed, possible)
    of_epoch = column([elections.states[at].leader_epoch for at in elections.all])
    known = epochs.send_epoch[:, None]
    found: Flags = np.where(known != UNKNOWN, known == of_epoch[None, :], fitting)
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
    fits &= (done >= leaders.began_ns[at]) & (sent <= min(NEVER, leaders.acted_until[at] + slack))
    fits &= ~np.isin(offset, epochs.of[at].offsets)
    # Under one leader, offsets have the order of appends.
    appended, sent_below, there_above = epochs.of[at].appended
    place = np.searchsorted(appended, offset)
    fits &= (sent_below[place] <= done + slack) & (there_above[place] + slack >= sent)
    for from_ns, until_ns in liveness.silences(CLIENTS, state.leader):
        fits &= ~((sent >= from_ns) & (done <= until_ns))
    return fits


def _may_have_all(
    at: int, evidence: PartitionEvidence, elections: Elections, leaders: Leaders, liveness: Liveness
) -> Flags:
    """Return which sends the leader of an election may have acked if they ask for acks=all.

    That takes min ISR replicas that still follow: none that led later, or joined the ISR of a later leader. A deposed
    leader cannot shrink its ISR any more, so it takes all members of that.
    """
    states, slack, sent, done = elections.states, liveness.slack, evidence.sends.sent_ns, evidence.sends.done_ns
    own, lowest = states[at], min(rules.min_isr or 0 for rules in evidence.rules)
    reign = 1 + sum(1 for _ in takewhile(lambda one: one.leader_epoch == own.leader_epoch, states[at + 1 :]))
    following, fits = set(own.replicas), np.ones(len(sent), dtype=bool)
    behind = range(at + reign, len(states))
    is_known = bool(behind) and not elections.gap[at + reign]
    members = set(states[at + reign - 1].isr) - {own.leader} if is_known else set()
    for later in behind:
        gone = leaders.joins(later) | ({states[later].leader} if leaders.led.get(later) else set())
        following -= gone - {own.leader}
        if len(following) < lowest or not members <= following:
            fits &= sent <= states[later].at_ns + slack
            break
    for member in members:
        for from_ns, until_ns in liveness.silences(member, own.leader):
            fits &= (sent < max(from_ns, states[at + reign].at_ns + slack)) | (done > until_ns)
    return fits
