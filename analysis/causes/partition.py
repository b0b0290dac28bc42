"""One partition with all that is known of it, and the question that the histories answer about one of its records."""

from __future__ import annotations

import msgspec

from analysis.causes.elections import Elections
from analysis.causes.epochs import LeaderEpochs
from analysis.causes.evidence import NEVER, DiskLoss, PartitionEvidence
from analysis.causes.leaders import Leaders
from analysis.causes.liveness import Liveness
from analysis.causes.moments import moments_of
from analysis.causes.writers import may_have_written


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
