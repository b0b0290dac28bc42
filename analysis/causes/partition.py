"""One partition with all that is known of it, and the question that the histories answer about one of its records.

It also says which leaders may have appended a record whose leader epoch nobody read.
"""

from __future__ import annotations

from itertools import takewhile

import msgspec
import numpy as np

from analysis.causes.elections import Elections
from analysis.causes.epochs import LeaderEpochs
from analysis.causes.evidence import NEVER, UNKNOWN, DiskLoss, Flags, PartitionEvidence, column
from analysis.causes.leaders import Leaders
from analysis.causes.liveness import Liveness
from analysis.causes.moments import moments_of
from ebbtide.scenario.words import CLIENTS


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A record that stood in the log and is missing.

    - `value` None: it is not known which record stood at the offset.
    - `writers`: the elections under which it may have been appended.
    - `acks_all`: an answer came for acks=all. `sent_ns`, `done_ns`, `read_ns`: when it was sent, when the answer was
      noted, and when a consumer first returned it (`NEVER`: not at all).
    - `committed`: whether anything shows that it was committed.
    - `is_epoch_known`: somebody read it with its leader epoch, so that no hidden leader appended it.
    - `may_be_older`: it stood in the log of the writer's leader, which need not have appended it.
    - `until`: the last election that may be guilty; None: any.
    """

    offset: int
    value: int | None = None
    writers: tuple[int, ...] = ()
    acks_all: bool = False
    sent_ns: int = 0
    done_ns: int = NEVER
    read_ns: int = NEVER
    committed: bool = True
    is_epoch_known: bool = True
    may_be_older: bool = False
    until: int | None = None


class EvidentPartition:
    """The evidence on a partition, with what follows from it for every record alike.

    `stays_down`: whether the broker of each disk loss is down until the last moment of the loss.
    """

    def __init__(self, evidence: PartitionEvidence) -> None:
        self.evidence = evidence
        self.elections = Elections(evidence.states, torn=evidence.cluster.log_torn)
        self.liveness = Liveness(evidence.cluster)
        self.epochs = LeaderEpochs(evidence, self.elections)
        is_new = True
        while is_new:
            self.leaders = Leaders(evidence, self.elections, self.liveness, self.epochs)
            self.may_have_written = may_have_written(evidence, self.epochs, self.leaders, self.liveness)
            # What only one leader can have appended shows more of that leader's epoch, unless a gap hides another one.
            is_new = not self.elections.has_gaps and self.epochs.learn(self.may_have_written)
        self.lost = self.epochs.lost
        self.stays_down = [self.liveness.is_down_throughout(one.broker, one.within) for one in evidence.disks]
        self.moments = moments_of(evidence, self.elections, self.liveness)

    def losses_since_request(self, broker: int, at: int) -> tuple[tuple[DiskLoss, ...], bool]:
        """Return the disk losses between a broker's request to enter the ISR and the state by which it entered.

        A session outlives its process, so the controller takes the request of a process that a loss ended, whatever
        epochs it compares. The flag says whether that is sure: no registration is between loss and state.
        """
        state = self.elections.states[at]
        registered, _ = self.liveness.registrations_around(broker, state)
        since_ns = registered[-1].at_ns if registered else 0
        losses = tuple(
            disk
            for disk in self.evidence.disks
            if disk.broker == broker and since_ns <= disk.within.last_ns < state.at_ns
        )
        is_session_known = bool(registered) and self.evidence.cluster.log_whole
        is_session_known &= all(since_ns <= disk.within.first_ns for disk in losses)
        return losses, is_session_known or self.liveness.has_dead_session(broker, state)

    def has_lost_on_disk(self, at: int, offset: int) -> bool:
        """Whether a proof shows that an elected leader had lost the record, and that no other broker led since."""
        states, gap, slack = self.elections.states, self.elections.gap, self.liveness.slack
        for disk in self.evidence.disks:
            within, ends = disk.within, disk.ends
            is_before = within.last_ns + slack <= states[at].at_ns
            since = next((one for one in reversed(range(at)) if states[one].at_ns + slack <= within.first_ns), None)
            if ends is None or ends.after > offset or not is_before or since is None or any(gap[since + 1 : at + 1]):
                continue
            is_alone = states[since].leader in (-1, disk.broker) and all(
                one.leader < 0 for one in states[since + 1 : at]
            )
            if is_alone and disk.broker == states[at].leader:
                return True
        return False

    def may_be_stale(self, broker: int, leader: int, at: int) -> bool:
        """Whether the broker may have entered the ISR by a request from before its disk loss.

        Before KIP-903, the controller refuses only requests of an earlier leader epoch. So the loss is of this epoch,
        and not behind the join. A request from before KIP-903 was in force says no broker epochs, whatever came since.
        """
        began, joined = self.leaders.began_ns[leader], self.elections.states[at].at_ns
        is_between = not self.evidence.cluster.steps_known or any(
            one.broker == broker and one.within.last_ns >= began and one.within.first_ns - self.liveness.slack <= joined
            for one in self.evidence.disks
        )
        return is_between and not all(rules.kip_903 for rules in self.leaders.rules_within(leader, at))


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
