"""One partition with all that is known of it, and the question that the worlds answer about one of its records."""

from __future__ import annotations

from functools import cached_property

import msgspec
import numpy as np

from analysis.causes.elections import Elections
from analysis.causes.epochs import LeaderEpochs
from analysis.causes.history import NEVER, DiskLoss, History, Ints
from analysis.causes.leaders import Leaders
from analysis.causes.liveness import LEARNS_NS, Liveness
from analysis.causes.moments import moments_of
from analysis.causes.writers import Writers


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A record that stood in the log and is missing.

    - `value` None: it is not known which record stood at the offset.
    - `writers`: the elections under which it may have been appended.
    - `acks_all`: an answer came for acks=all. `sent_ns`, `done_ns`, `read_ns`: when it was sent, when the answer was
      noted, and when a consumer first returned it (`NEVER`: not at all).
    - `committed`: whether it was committed, if that is known otherwise.
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
    committed: bool | None = None
    may_be_older: bool = False
    until: int | None = None

    @property
    def is_committed(self) -> bool:
        """Whether the record was committed, as far as it is known without its leaders."""
        return bool(self.committed) or self.acks_all or self.read_ns < NEVER


class EvidentPartition:
    """A partition's history with what follows from it for every record alike."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.elections = Elections(history.states, torn=history.cluster.log_torn)
        self.liveness = Liveness(history.cluster)
        self.epochs = LeaderEpochs(history, self.elections)
        self.leaders, self.writers = self._leaders_and_writers()
        # What only one leader can have appended shows more of that leader's epoch, unless a gap hides another one.
        while not self.elections.has_gaps and self.epochs.learn(self.writers.only_epoch, self.writers.only_leadership):
            self.leaders, self.writers = self._leaders_and_writers()
        self.moments = moments_of(history, self.elections, self.liveness)
        self._caught_up: dict[tuple[int, int, int], int] = {}

    @cached_property
    def lost(self) -> Ints:
        """The indexes of the sends whose value the final log lacks."""
        return np.flatnonzero(self.epochs.is_lost)

    def _leaders_and_writers(self) -> tuple[Leaders, Writers]:
        leaders = Leaders(self.history, self.elections, self.liveness, self.epochs)
        return leaders, Writers(self.history, self.epochs, leaders, self.liveness)

    def caught_up_to(self, latest: int, at: int, broker: int, until_ns: int) -> int:
        """Return up to which offset a follower's log surely equals that of the leader of election `at`; -1: none.

        A record that was sent after the follower's last disk loss and join was committed by `until_ns`, and the
        follower was in the ISR from the join to the state `latest`.
        """
        joined = latest
        while joined > at and broker in self.elections.states[joined - 1].isr:
            joined -= 1
        disks = [
            disk.gone.last_ns
            for disk in self.history.disks
            if disk.broker == broker and disk.gone.first_ns <= until_ns + self.liveness.slack
        ]
        own = self.elections.states[joined].at_ns
        since_ns = max(disks, default=own) if joined == at else max([own, *disks])
        return self.reached(at, since_ns, until_ns)

    def reached(self, at: int, since_ns: int, until_ns: int) -> int:
        """Return the last offset of an epoch that was sent after one time and committed by another; -1: none."""
        key = (at, since_ns, until_ns)
        if key not in self._caught_up:
            sent, offset, by = self.epochs.of[at].fresh
            slack = self.liveness.slack
            fits = offset[(sent > since_ns + slack) & (by + slack <= until_ns)]
            self._caught_up[key] = int(fits.max(initial=-1))
        return self._caught_up[key]

    def losses_since_request(self, broker: int, at: int) -> tuple[DiskLoss, ...]:
        """Return the disk losses between a broker's request to enter the ISR and the state by which it entered.

        They are not empty only if the session at that state is of a process that had died: the session outlives the
        process, so the controller takes the request, whatever epochs it compares.
        """
        state = self.elections.states[at]
        if not self.liveness.has_dead_session(broker, state):
            return ()
        registered = [one.at_ns for one in self.liveness.registrations(broker) if one.at_ns <= state.at_ns]
        since_ns = max(registered, default=0)
        return tuple(
            disk
            for disk in self.history.disks
            if disk.broker == broker and since_ns <= disk.gone.first_ns and disk.gone.last_ns < state.at_ns
        )

    def may_be_stale(self, broker: int, leader: int, at: int) -> bool:
        """Whether the broker may have entered the ISR by a request from before its disk loss.

        Before KIP-903, the controller refuses only requests of an earlier leader epoch.
        """
        if self.leaders.rules(at).kip_903:
            return False
        joined, began = self.elections.states[at].at_ns, self.elections.began_ns[leader]
        return not self.history.cluster.steps_known or any(
            disk.broker == broker and disk.gone.first_ns < joined and disk.gone.last_ns + self.liveness.slack >= began
            for disk in self.history.disks
        )

    def elr_when_registered(self, at: int) -> bool | None:
        """Return whether the ELR was on when the winner of an election registered last; None: not known.

        With the ELR on, a broker that registers after an unclean shutdown leaves the ISR by that.
        """
        state = self.elections.states[at]
        registered = [
            event.metadata_offset
            for event in self.liveness.registrations(state.leader)
            if event.metadata_offset < state.metadata_offset
        ]
        offset = registered[-1] if registered else state.metadata_offset
        rules = self.history.rules
        return ([one for one in rules if one.metadata_offset <= offset] or [rules[0]])[-1].elr

    def min_isr_range(self, asked: Question) -> tuple[int | None, int | None]:
        """Return the lowest and the highest min ISR that may have held when the record was committed."""
        slack, rules = self.liveness.slack, self.history.rules
        sent_ns = asked.sent_ns - slack
        by_ns = min(asked.done_ns if asked.acks_all else NEVER, asked.read_ns) + slack
        before = [one for one in rules if one.at_ns <= sent_ns][-1:] or rules[:1]
        within = [one for one in rules if sent_ns < one.at_ns <= by_ns]
        levels = [one.min_isr for one in (*before, *within)]
        known = [one for one in levels if one is not None]
        return (None, None) if len(known) < len(levels) or not known else (min(known), max(known))

    @cached_property
    def offset_cuts(self) -> list[int]:
        """The offsets at which an answer may change: ends of logs, starts of epochs, HWs, and what was committed."""
        found = {end for disk in self.history.disks if disk.ends for end in (disk.ends.before, disk.ends.after)}
        times = np.unique([moment.at_ns - self.liveness.slack for moment in self.moments])
        for at, evidence in self.epochs.of.items():
            found |= {evidence.start_max, evidence.hw_max, evidence.read_max + 1}
            places = np.searchsorted(times, np.asarray([*evidence.committed.times, NEVER]), side="left")
            found |= {evidence.committed.offsets[one] + 1 for one in np.flatnonzero(np.diff(places)).tolist()}
            found |= self._ends_of_caught_up(at)
        return sorted(found)

    def _ends_of_caught_up(self, at: int) -> set[int]:
        """Return every offset that `caught_up_to` may return for an election."""
        began, ends_ns = self.elections.states[at].at_ns, self.elections.end_ns[at]
        if not len(self.epochs.of[at].fresh[0]):
            return set()
        times = [one.at_ns for one in self.moments]
        untils = {time for time in times if time <= ends_ns}
        sinces = {disk.gone.last_ns for disk in self.history.disks} | {
            state.at_ns for state in self.elections.states[at:] if state.at_ns <= ends_ns
        }
        return {
            self.reached(at, since, until) for since in sinces for until in untils if began <= until and since <= until
        }

    @cached_property
    def time_cuts(self) -> list[int]:
        """The times at which an answer may change; two clocks may differ by the slack."""
        times = {one.at_ns for one in self.moments} | {state.at_ns for state in self.elections.states}
        times |= {disk.gone.last_ns for disk in self.history.disks} | {rule.at_ns for rule in self.history.rules}
        brokers = self.elections.brokers
        pairs = ((one, other) for one in brokers for other in brokers if one < other)
        times |= {first for pair in pairs for first, _ in self.liveness.silences(*pair)}
        times |= {state.at_ns + LEARNS_NS for state in self.elections.states}
        slack = self.liveness.slack
        return sorted({time + shift for time in times for shift in (-slack, 0, slack)})
