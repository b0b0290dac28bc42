"""The state machine: the initial state, and every action that can happen.

`analysis.spec.explore.wording` names the actor of each action. Some actions are one step here and
several in Kafka, where the steps between cannot matter: docs/spec.md says which and why.

A leader's decision depends on log lengths, set sizes and min.insync.replicas only. In a small configuration these are
few, so each question is put to the variant's own `LeaderRules` once, and its answer is in a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import combinations
from operator import xor
from typing import Literal, NamedTuple

from analysis.spec.leader import Follower, Leader, LeaderRules
from analysis.spec.model import words as w
from analysis.spec.model.bounds import MAX_BROKERS, Bounds
from analysis.spec.model.control import Controls
from analysis.spec.model.transition import ERASES, LOSES, Action, Transition, partition_of
from analysis.spec.model.words import DATA_BITS, LOG, MAX_RECORDS, Data, SharedState, State, unpack_shared
from analysis.spec.partition import NO_ERROR, Cluster, Partition
from analysis.spec.protocol import Protocol


class LeaderTables:
    """The tables of one variant. All lengths are numbers of records."""

    def __init__(self, rules: LeaderRules) -> None:
        self._rules = rules
        self.admits = cache(self._admits)
        self.hw_moves = cache(self._hw_moves)
        self.tells_acked = cache(self._reports_acked)
        self.joins = cache(self._joins)
        self.falls_out = cache(self._falls_out)

    def _leader(self, isr_size: int, maximal_size: int, replica_count: int, leo: int, hw: int) -> Leader:
        followers = tuple(Follower(broker, leo, fetch_epoch=1, metadata_epoch=1) for broker in range(1, replica_count))
        return Leader(
            broker=0,
            replicas=tuple(range(replica_count)),
            isr=frozenset(range(isr_size)),
            maximal=frozenset(range(maximal_size)),
            followers=followers,
            leo=leo,
            hw=hw,
            pending="EXPAND" if maximal_size > isr_size else "",
        )

    def _admits(self, isr_size: int, replica_count: int, min_isr: int) -> bool:
        """Return whether an acks=all record is appended."""
        leader = self._leader(isr_size, isr_size, replica_count, 0, 0)
        return self._rules.append(leader, min_isr, -1).error == NO_ERROR

    def _hw_moves(self, isr_size: int, maximal_size: int, replica_count: int, min_isr: int) -> bool:
        """Return whether the HW may pass a record that the whole maximal ISR has."""
        leader = self._leader(isr_size, maximal_size, replica_count, 1, 0)
        return self._rules.advance_hw(leader, min_isr).hw == 1

    def _reports_acked(self, isr_size: int, maximal_size: int, replica_count: int, min_isr: int) -> bool:
        """Return whether the producer of an acks=all record below the HW receives its ack."""
        step = self._rules.acked(self._leader(isr_size, maximal_size, replica_count, 1, 1), min_isr, 1)
        return step.done and step.error == NO_ERROR

    def _joins(self, follower: int, hw: int, epoch_start: int, leo: int) -> bool:
        """Return whether a follower that fetches from `follower` is proposed for the ISR."""
        leader = self._leader(1, 1, 2, leo, hw)._replace(
            epoch_start=epoch_start, followers=(Follower(1, 0, fetch_epoch=1, metadata_epoch=1),)
        )
        return self._rules.fetch(leader, 1, 1, follower, 1, 1).proposed is not None

    def _falls_out(self, follower: int, leo: int) -> bool:
        """Return whether an ISR member at `follower` for too long is proposed to leave."""
        leader = self._leader(2, 2, 2, leo, 0)._replace(
            followers=(Follower(1, follower, caught_up=False, fetch_epoch=1, metadata_epoch=1),)
        )
        return self._rules.maybe_shrink(leader, 1).proposed is not None


Promise = Literal["committed", "acks-all", "acks-1", "hw", "recovery", "none"]
"""What a new leader must have.

The records that the HW passed, or those acknowledged under acks=all or 1; or (hw) as many records
as the HW counted, so that the HW that it serves does not go back. `recovery`: as `committed`, but an
unclean recovery may lose what every LastKnownElr member lost. `none`: any election may lose records.
"""

_COMMITTED_AT, _OLDER_AT, _APPENDED_AT = 2 * MAX_RECORDS, 3 * MAX_RECORDS, 4 * MAX_RECORDS
_ACKED_AT = MAX_RECORDS
_ONE_APPENDED = 1 << _APPENDED_AT
_NOT_OLDER = ~(LOG << _OLDER_AT)
_NOT_FLUSHED = ~(LOG << MAX_RECORDS)
_UP = w.UP << DATA_BITS
_LAST_KNOWN = w.LAST_KNOWN << DATA_BITS
_WITHOUT_ANSWER = ~(w.ANSWER_BITS << DATA_BITS)
_FETCHES = w.UP | w.UNFENCED | w.REPLICA


class Move(NamedTuple):
    """An action and the state after it, brokers at their old positions.

    `lost`: promised records that are lost for good. They are, where a broker that runs becomes
    leader without them: followers cut their logs to match its log.
    """

    action: Action
    shared: int
    data: int
    words: list[int]
    lost: int = 0


Successor = tuple[Action, int, int, list[int], int]
"""The fields of a `Move`. A search makes millions: a plain tuple takes a third of the time to make and to unpack."""

_FETCHED = tuple(Action("fetch", at) for at in range(MAX_BROKERS))


_Effect = tuple[Action, int, tuple[int, ...], int, tuple[tuple[int, int], ...], bool, int]
"""A `Transition` as the search applies it, as a plain tuple for the same reason.

The action, what the brokers share after it, the control bits to flip at each position, the elected broker, effects on
logs, whether the election is forgiven. Last the position of a broker that acts: if the broker before it has the same
word, that one acts for both. 0: there is no such broker.
"""


class _Plan(NamedTuple):
    """What can happen with these control bits, logs left open.

    -1: no leader that runs. `slow`: the ISR members that may be too slow. `answering`: brokers whose
    log an unclean recovery asks for.
    """

    leader: int
    appends: tuple[int, ...]
    fetchers: tuple[int, ...]
    hw_over: tuple[int, ...] | None
    tells_acked: bool
    joiners: tuple[tuple[int, _Effect], ...]
    members: tuple[int, ...]
    slow: tuple[int, ...]
    effects: tuple[_Effect, ...]
    answering: tuple[int, ...] = ()


class Machine:
    """One variant under one set of bounds.

    `cluster` is a healthy cluster of the variant: it holds the feature levels.
    """

    def __init__(self, protocol: Protocol, cluster: Cluster, bounds: Bounds, promise: Promise = "committed") -> None:
        self.bounds = bounds
        self.protocol = protocol
        self._promise = promise
        self._elr = cluster.elr
        self._leading = LeaderTables(protocol)
        self.controls = Controls(protocol, bounds, cluster.metadata_version)
        self._unpacked: dict[int, SharedState] = {}
        self._packed: dict[SharedState, int] = {}
        self._plans: dict[tuple[int, ...], _Plan] = {}
        self._promised_at = _ACKED_AT if promise.startswith("acks") else _COMMITTED_AT

    def initial_state(self) -> list[int]:
        """Return the state in which all replicas are in the ISR and empty.

        The first replica leads; spares run. The words are not sorted.
        """
        bounds = self.bounds
        shared = SharedState(bounds.min_isr, bounds.min_isr, self._elr)
        running = w.REGISTERED | w.UNFENCED | w.UP
        replica = running | w.REPLICA | w.IN_ISR
        brokers = [replica | w.LEADER] + [replica] * (bounds.rf - 1) + [running] * (bounds.size - bounds.rf)
        return [self._packed_of(shared), Data().pack(), *(control << DATA_BITS for control in brokers)]

    def shared_of(self, state: Sequence[int]) -> SharedState:
        """Return what the brokers of `state` share."""
        packed = state[0]
        shared = self._unpacked.get(packed)
        if shared is None:
            shared = self._unpacked[packed] = unpack_shared(packed)
        return shared

    def partition(self, state: Sequence[int]) -> tuple[Partition, Cluster]:
        """Return the controller's view of `state`, brokers by position."""
        shared, controls = self.shared_of(state), tuple(word >> DATA_BITS for word in state[2:])
        first = next(at for at, control in enumerate(controls) if control & w.REPLICA)
        return partition_of(shared, controls, first), self.controls.cluster(shared, controls)

    def moves(self, state: Sequence[int]) -> list[Move]:
        """Return everything that can happen in `state`."""
        return [Move(*successor) for successor in self.successors(state)]

    def successors(self, state: Sequence[int]) -> list[Successor]:
        """Return the fields of each move.

        Brokers with equal words are interchangeable: one acts for all.
        """
        shared_at, data, *words = state
        key = (shared_at, *[word >> DATA_BITS for word in words])
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self._plan(key)
        moves: list[Successor] = []
        if plan.leader >= 0:
            self._leader_moves(plan, state, words, moves)
        add = moves.append
        for action, shared, flips, elected, disks, forgiven, twin in plan.effects:
            if twin and words[twin] == words[twin - 1]:
                continue
            after = list(map(xor, words, flips))
            for at, change in disks:
                word = after[at]
                if change == LOSES:
                    after[at] = word & ~LOG | word >> MAX_RECORDS & LOG
                elif change == ERASES:
                    after[at] = word >> DATA_BITS << DATA_BITS
                else:
                    after[at] = word | (word & LOG) << MAX_RECORDS
            if elected < 0:
                add((action, shared, data, after, 0))
            else:
                data_after, lost = self._elect(action, data, words, after[elected], forgiven)
                add((action, shared, data_after, after, lost))
        if plan.answering:
            self._answers(plan, state, words, moves)
        return moves

    def _answers(self, plan: _Plan, state: Sequence[int], words: list[int], moves: list[Successor]) -> None:
        """Add the answers to GetReplicaLogInfo; a later answer replaces an earlier one."""
        previous = -1
        for at in plan.answering:
            word = words[at]
            answer = (w.ANSWERED | (word & LOG) << w.ANSWER_AT) << DATA_BITS
            answered = word & _WITHOUT_ANSWER | answer
            if answered != word and word != previous:
                after = words.copy()
                after[at] = answered
                moves.append((Action("answer", at), state[0], state[1], after, 0))
            previous = word

    def _leader_moves(self, plan: _Plan, state: Sequence[int], words: list[int], moves: list[Successor]) -> None:
        """Add what the leader does with its log and its followers' logs."""
        shared_at, data = state[0], state[1]
        leader = words[plan.leader]
        log = leader & LOG
        committed = data >> _COMMITTED_AT & LOG
        appended = data >> _APPENDED_AT
        if appended < self.bounds.records:
            for strong in plan.appends:
                grown = words.copy()
                grown[plan.leader] = leader | 1 << appended
                after = data + _ONE_APPENDED | strong << appended
                if not strong and self._promise == "acks-1":
                    after |= 1 << appended + _ACKED_AT
                moves.append((Action("append", plan.leader, strong), shared_at, after, grown, 0))
        previous = -1
        for at in plan.fetchers:
            word = words[at]
            if word & LOG != log and word != previous:
                fetched = words.copy()
                fetched[at] = word & ~LOG & (_NOT_FLUSHED | log << MAX_RECORDS) | log
                moves.append((_FETCHED[at], shared_at, data, fetched, 0))
            previous = word
        if plan.hw_over is not None:
            reached = log
            for at in plan.hw_over:
                reached &= words[at]
            if reached & ~committed:
                after = data | reached << _COMMITTED_AT
                if plan.tells_acked and self._promise == "acks-all":
                    after |= (reached & data & LOG) << _ACKED_AT
                moves.append((Action("advance-hw", plan.leader), shared_at, after, words.copy(), 0))
        leo, epoch_start = log.bit_count(), (log & data >> _OLDER_AT).bit_count()
        previous = -1
        for at, effect in plan.joiners:
            word = words[at]
            # A follower first cuts a tail of its log that the leader lacks.
            fetching = word != previous and not word & LOG & ~log
            if fetching and self._leading.joins((word & LOG).bit_count(), committed.bit_count(), epoch_start, leo):
                action, asked, flips, *_ = effect
                moves.append((action, asked, data, list(map(xor, words, flips)), 0))
            previous = word
        behind = [at for at in plan.slow if self._leading.falls_out((words[at] & log).bit_count(), leo)]
        if behind:
            self._shrinks(plan, state, words, behind, moves)

    def _shrinks(
        self, plan: _Plan, state: Sequence[int], words: list[int], behind: list[int], moves: list[Successor]
    ) -> None:
        """Add the ISRs that the leader asks for without some of those that are behind it."""
        shared = self._packed_of(self.shared_of(state)._replace(in_flight=True))
        for count in range(1, len(behind) + 1):
            for gone in combinations(behind, count):
                # Of interchangeable brokers the first ones go.
                if any(at - 1 in behind and at - 1 not in gone and words[at] == words[at - 1] for at in gone):
                    continue
                asked = words.copy()
                for at in (plan.leader, *plan.members):
                    if at not in gone:
                        asked[at] |= w.PROPOSED << DATA_BITS
                detail = sum(1 << at for at in gone)
                moves.append((Action("ask-shrink", plan.leader, detail), shared, state[1], asked, 0))

    def _elect(self, action: Action, data: int, words: list[int], leader: int, forgiven: bool) -> tuple[int, int]:
        """Return the data after an election, and the promised records that the new `leader` makes lost."""
        everything = (1 << (data >> _APPENDED_AT)) - 1
        data = data & _NOT_OLDER | everything << _OLDER_AT
        if not leader & _UP:
            return data, 0
        promised = data >> self._promised_at & LOG
        if forgiven or self._forgives(action, words, promised):
            missing = LOG & ~leader
            data &= ~(missing << _COMMITTED_AT | missing << _ACKED_AT)
            promised &= leader
        if self._promise == "hw" and (leader & LOG).bit_count() >= promised.bit_count():
            return data, 0
        return data, promised & ~leader

    def _plan(self, key: tuple[int, ...]) -> _Plan:
        shared, controls = self.shared_of(key), key[1:]
        effects = tuple(
            self._effect(controls, transition) for transition in self.controls.transitions(shared, controls)
        )
        leader = next((at for at, control in enumerate(controls) if control & w.LEADER and control & w.UP), -1)
        if leader < 0:
            return _Plan(-1, (), (), None, False, (), (), (), effects, self.controls.may_answer(shared, controls))
        replicas = sum(1 for control in controls if control & w.REPLICA)
        others = [at for at in range(len(controls)) if at != leader]
        isr = [at for at in others if controls[at] & w.IN_ISR]
        maximal = [at for at in others if controls[at] & (w.IN_ISR | w.PROPOSED)]
        sizes = (len(isr) + 1, len(maximal) + 1, replicas, shared.leader_min_isr)
        # A member that is down does not fetch. It may have fetched before it went down: that is
        # another order of events.
        moving = self._leading.hw_moves(*sizes) and all(controls[at] & w.UP for at in maximal)
        strong = self._leading.admits(sizes[0], replicas, shared.leader_min_isr)
        wanted = {"all": (1,), "1": (0,), "mixed": (0, 1)}[self.bounds.acks]
        joiners: list[tuple[int, _Effect]] = []
        if not shared.in_flight:
            for at in others:
                if controls[at] & _FETCHES == _FETCHES and not controls[at] & (w.IN_ISR | w.SHUTTING_DOWN):
                    joiners.append((at, self._join_effect(shared, controls, leader, isr, at)))
        return _Plan(
            leader=leader,
            appends=tuple(acks for acks in wanted if strong or not acks),
            fetchers=tuple(at for at in others if controls[at] & _FETCHES == _FETCHES),
            hw_over=tuple(maximal) if moving else None,
            tells_acked=self._leading.tells_acked(*sizes),
            joiners=tuple(joiners),
            members=() if shared.in_flight else tuple(isr),
            slow=() if shared.in_flight else tuple(at for at in isr if self.bounds.cuts or not controls[at] & w.UP),
            effects=effects,
        )

    def _join_effect(
        self, shared: SharedState, controls: tuple[int, ...], leader: int, isr: list[int], joiner: int
    ) -> _Effect:
        """Return the effect of the leader asking for an ISR with `joiner`."""
        asked = {leader, joiner, *isr}
        flips = tuple((w.PROPOSED if at in asked else 0) << DATA_BITS for at in range(len(controls)))
        in_flight = self._packed_of(shared._replace(in_flight=True))
        return Action("ask-expand", joiner), in_flight, flips, -1, (), False, 0

    def _effect(self, controls: tuple[int, ...], transition: Transition) -> _Effect:
        flips = tuple((old ^ new) << DATA_BITS for old, new in zip(controls, transition.controls, strict=True))
        action, at = transition.action, transition.action.broker
        # Only brokers with equal control bits can have equal words.
        twin = at if at > 0 and controls[at] == controls[at - 1] else 0
        shared = self._packed_of(transition.shared)
        return action, shared, flips, transition.elected, transition.disks, transition.forgiven, twin

    def _forgives(self, action: Action, words: list[int], promised: int) -> bool:
        """Return whether KIP-966 allows the loss of an election that is no operator's choice.

        It is a recovery for which every LastKnownElr member lost a record. Where nothing is promised, any is.
        """
        if self._promise != "recovery" or action.kind != "recover":
            return self._promise == "none"
        members = [word for word in words if word & _LAST_KNOWN]
        return bool(members) and all(promised & ~word for word in members)

    def _packed_of(self, shared: SharedState) -> int:
        packed = self._packed.get(shared)
        if packed is None:
            packed = self._packed[shared] = shared.pack()
        return packed


def canonical(shared: int, data: int, words: list[int]) -> State:
    """Return the state up to a renaming of brokers; sorts `words` in place."""
    words.sort()
    return (shared, data, *words)
