"""Whether an elected broker led, until when it may have acted, and what its election was by the protocol."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import takewhile

from analysis.causes.elections import Elections
from analysis.causes.epochs import LeaderEpochs
from analysis.causes.evidence import InForce, PartitionEvidence
from analysis.causes.liveness import Liveness
from analysis.causes.table import Kind


class Leaders:
    """What is known of the leader of each election.

    - `led`: whether it led by that election (None: perhaps). `acted_until`: it may have appended until then.
    - `kind`, `may_have_registered`: by which way it was elected; the first state has none, for nothing was before it.
    - `began_ns`: each state began no earlier than this, by the clock of the steps.
    - `dead_ns`: by then the leader of each state was surely dead; 0: before that state, so that it never led by it.
    - `unaware`: the replicas that, with the leader, may not know that its state is over.
    """

    def __init__(
        self, evidence: PartitionEvidence, elections: Elections, liveness: Liveness, epochs: LeaderEpochs
    ) -> None:
        self._evidence, self._elections, self._liveness, self._epochs = evidence, elections, liveness, epochs
        every = range(len(elections.states))
        self.began_ns = [self._began_ns(at) for at in every]
        self.dead_ns = [self._dead_ns(at) for at in every]
        self.unaware = [self._unaware(at) for at in every]
        self.led = {at: self._led(at) for at in elections.all}
        behind_first = [at for at in elections.all if at > 0]
        self.kind = {at: self._kind(at) for at in behind_first}
        self.acted_until = {at: self._acted_until(at) for at in elections.all}
        self.may_have_registered = {at: self._may_have_registered(at) for at in behind_first}

    def _led(self, at: int) -> bool | None:
        """Return whether the broker led: False, if it never learned that it was elected; None: not known."""
        states = self._elections.states
        elected = states[at]
        if self._epochs.of[at].is_seen:
            return True
        before = elected
        for later in states[at + 1 :]:
            if (later.leader_epoch, later.leader) != (elected.leader_epoch, elected.leader):
                break
            if set(later.isr) - set(before.isr):
                return True
            before = later
        return None if self.dead_ns[at] else False

    def _began_ns(self, at: int) -> int:
        """Return the earliest start of a state; the record that began it may be missing right before it."""
        first = at - self._elections.gap[at]
        return self._liveness.earliest_ns(self._elections.states[first]) if first >= 0 else 0

    def _dead_ns(self, at: int) -> int:
        """Return by when the leader of a state was surely dead; 0: before that state.

        Where a record is missing before the state, its leader may have led before it died.
        """
        state = self._elections.states[at]
        if self._liveness.has_dead_session(state.leader, state) and not self._elections.gap[at]:
            return 0
        return self._liveness.died_by(state.leader, state)

    def _unaware(self, at: int) -> frozenset[int]:
        """Return the replicas that, with the leader, may not know that a state is over."""
        state, over_ns = self._elections.states[at], self._elections.time(at + 1)
        return frozenset(one for one in state.replicas if self._liveness.may_not_know(one, state.leader, over_ns))

    def _acted_until(self, at: int) -> int:
        """Return until when the leader may have appended under the epoch of its election."""
        states, leader = self._elections.states, self._elections.states[at].leader
        _, registered = self._liveness.registrations_around(leader, states[at])
        joined = [states[one].at_ns for one in range(at + 1, len(states)) if leader in self.joins(one)]
        return min([*joined, *(one.at_ns for one in registered), self._liveness.died_by(leader, states[at])])

    def _kind(self, at: int) -> Kind:
        """Return by which way of the protocol the broker was elected."""
        before, after = self._elections.states[at - 1], self._elections.states[at]
        leader = after.leader
        if any(one.is_recovery and one.elected_at == after.metadata_offset for one in self._evidence.requests):
            return "recovery"
        elr_on = self._may_have_elr(at)
        # With the ELR on, a broker that registers in this batch has left ISR and ELR, unless it was shut down cleanly.
        staying = {one for one in self._members(at) if not (elr_on and self._liveness.registers_with(one, after))}
        # A reassignment that is cancelled drops what it was adding.
        completes = after.completes_reassignment(before) and set(before.adding) <= set(after.replicas)
        began_recovering = after.recovering and not before.recovering
        if (leader in staying or completes) and not began_recovering:
            return "clean"
        is_last_known = elr_on and leader in before.last_known_elr and not staying - {leader}
        return "last-known-leader" if is_last_known else "unclean"

    def _members(self, at: int) -> frozenset[int]:
        """Return the brokers that the controller may elect cleanly: the ISR, and the ELR unless it is off."""
        before = self._elections.states[at - 1]
        return frozenset((*before.isr, *before.elr) if self._may_have_elr(at) else before.isr)

    def _may_have_elr(self, at: int) -> bool:
        """Whether the ELR may be on when the record of a state is written."""
        return self.rules(at).elr is not False

    def _may_have_registered(self, at: int) -> bool:
        """Whether the winner may have left ISR and ELR by the batch that elected it, and nothing says so."""
        state = self._elections.states[at]
        last_known = self._elections.states[at - 1].last_known_elr
        return state.leader in last_known and self._liveness.may_lack_event(state) and self._may_have_elr(at)

    def rules(self, at: int) -> InForce:
        """Return the rules in force when the record of a state was written."""
        return self.rules_before(self._elections.states[at].metadata_offset)

    def rules_within(self, first: int, last: int) -> Sequence[InForce]:
        """Return the rules in force from the record of one state until that of another one."""
        offsets = [self._elections.states[one].metadata_offset for one in (first, last)]
        return self._evidence.rules[self._place_before(offsets[0]) : self._place_before(offsets[1]) + 1]

    def rules_before(self, metadata_offset: int) -> InForce:
        """Return the rules in force before a record of the metadata log."""
        return self._evidence.rules[self._place_before(metadata_offset)]

    def _place_before(self, metadata_offset: int) -> int:
        return max(0, bisect_left(self._evidence.rules, metadata_offset, key=lambda one: one.metadata_offset) - 1)

    def by_name_before(self, at: int, since: int) -> int | None:
        """Return the last election behind `since` by which the winner of `at` is in the ISR, if it was by name.

        No other broker was elected between them, not even in a gap.
        """
        elections, leader = self._elections, self._elections.states[at].leader
        first = max([since + 1, *(place for place in range(at + 1) if elections.hides[place])])
        before = reversed([one for one in elections.all if first <= one < at])
        own = takewhile(lambda one: elections.states[one].leader == leader, before)
        return next((one for one in own if self.kind[one] != "clean" and not elections.gap[one]), None)

    def joins(self, at: int) -> frozenset[int]:
        """Return the followers that entered the ISR by the record of a state, by their own request.

        A winner from the ELR entered by its election.
        """
        is_election = self._elections.is_election(at)
        is_by_request = not is_election or self.kind[at] == "clean"
        before, after = self._elections.states[at - 1], self._elections.states[at]
        elected = frozenset(before.elr).intersection([after.leader] if is_election else ())
        return frozenset(after.isr) - frozenset(before.isr) - elected if is_by_request else frozenset()

    def is_unclean_allowed(self, at: int) -> bool | None:
        """Whether the controller may elect uncleanly here, by config or by request; None: not known."""
        state, slack, cluster = self._elections.states[at], self._liveness.slack, self._evidence.cluster
        at_ns, offset = state.at_ns, state.metadata_offset
        # A recovery that proved its election asked for that one alone.
        near = (one for one in self._evidence.requests if one.asked_ns - slack <= at_ns <= one.answered_ns + slack)
        asked = [one for one in near if not one.is_recovery or one.elected_at is None]
        # Before a request and behind it, only the clocks may make it the reason, unless its proof names the election.
        if any(
            one.elected_at == offset or one.asked_ns <= at_ns <= one.answered_ns for one in asked if not one.is_recovery
        ):
            return True
        allowed = self.rules(at).unclean
        is_known = not asked and cluster.steps_known and cluster.log_whole
        return allowed if allowed is not False or is_known else None

    def is_nobody_passed_over(self, at: int) -> bool | None:
        """Whether no other member that may lead was alive; None: not known."""
        before, after = self._elections.states[at - 1], self._elections.states[at]
        unfenced, candidates = self._liveness.unfenced(after), self._members(at) - {after.leader}
        if unfenced is None:
            # Without a leader, no candidate was alive.
            unfenced = candidates - {before.leader} if before.leader >= 0 else frozenset()
        alive = candidates & unfenced
        is_doubtful = self._liveness.may_lack_event(after) or (self.rules(at).elr is None and not alive & {*before.isr})
        return not alive or (None if is_doubtful else False)
