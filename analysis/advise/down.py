"""May these brokers be taken down now? Each of their partitions is asked of the model, as it stands in the snapshot.

The brokers are stopped cleanly. Then one thing more goes wrong: a broker loses power, or dies and returns with an
empty disk. No running broker is cut off or slow. A replica outside of ISR and ELR counts as empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AnySet
from fnmatch import fnmatchcase
from typing import Any, Literal, NamedTuple

import msgspec

from analysis.advise.answers import STATES_MAX
from analysis.advise.groups import (
    broker_level,
    brokers_in_words,
    final_replicas,
    hosting_brokers,
    partitions_of,
    settings_of,
)
from analysis.advise.known import new_disk_empties_elr
from analysis.advise.release import ReleaseFacts
from analysis.spec.explore.properties import PROPERTIES
from analysis.spec.explore.question import ask_machine
from analysis.spec.model import words as w
from analysis.spec.model.bounds import MAX_BROKERS, MAX_BUDGET, Bounds
from analysis.spec.model.machine import Machine
from analysis.spec.model.words import DATA_BITS, Data
from analysis.spec.variants import VARIANTS
from ebbtide.errors import UsageError
from ebbtide.shown_text import plural
from ebbtide.snapshot.model import ClusterSnapshot, SnapshotPartition

_WHERE = "--down"
_RACK = "rack="
_RECORD = 1
_LIVE = w.REGISTERED | w.UNFENCED | w.UP
ONE_MORE = {
    "power": "another broker loses power",
    "disk": "another broker dies, and returns with an empty disk",
}
"""What may go wrong once the brokers are down."""
UNSEEN = "no file lists the partitions"
"""Why nothing is known of a topic: nobody knows which brokers have it."""

Risk = Literal["survives", "loses", "unknown"]
DownSays = Literal["safe", "not safe", "unknown"]


class DownAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What taking `brokers` down now does; partitions are named as `topic-partition`.

    `leaderless`, `refused` (no ack with acks=all) and `at_risk` have what is worse than now. `at_risk`: by what goes
    wrong next, those that can lose an acks=all record. `already`: those that are so now, too. `unknown`: by the reason,
    those without an answer, and topics of which no file lists a partition. `quorum`: what becomes of the controllers,
    if the brokers may be some of them. `notes`: what is not known, or assumed.
    """

    brokers: tuple[int, ...]
    not_alive: tuple[int, ...]
    says: DownSays
    partitions: int
    leaderless: tuple[str, ...]
    refused: tuple[str, ...]
    at_risk: dict[str, tuple[str, ...]]
    already: tuple[str, ...]
    unknown: dict[str, tuple[str, ...]]
    quorum: str | None = None
    notes: tuple[str, ...] = ()


class _Standing(NamedTuple):
    """How a partition is: whether it has a leader, whether acks=all is acked, and what each next thing does."""

    has_leader: bool
    is_acked: bool
    risks: dict[str, Risk]


def parse_down(text: str, snapshot: ClusterSnapshot) -> tuple[int, ...]:
    """Return the brokers that `--down` names: by id, by address or host, or as `rack=a`. Raises `UsageError`.

    The address of a broker of a file is the name of its service, pod or file.
    """
    known = {one.id for one in snapshot.brokers} | hosting_brokers(snapshot)
    racks: dict[str, set[int]] = {}
    named: dict[str, set[int]] = {}
    for broker in snapshot.brokers:
        if broker.rack is not None:
            racks.setdefault(broker.rack, set()).add(broker.id)
        for name in (broker.address, broker.address.rpartition(":")[0]):
            named.setdefault(name, set()).add(broker.id)
    found: set[int] = set()
    for part in (one.strip() for one in text.split(",")):
        if part.startswith(_RACK) and part.removeprefix(_RACK) in racks:
            found |= racks[part.removeprefix(_RACK)]
        elif part.isascii() and part.isdigit() and int(part) in known:
            found.add(int(part))
        elif part and len(named.get(part, ())) == 1:
            found |= named[part]
        else:
            others = [f"a name such as {one.address}" for one in snapshot.brokers[:1]]
            others += [f"{_RACK}NAME with {', '.join(sorted(racks))}"] if racks else []
            raise UsageError(
                "no broker of this cluster",
                where=_WHERE,
                got=repr(part),
                allowed=", or ".join([brokers_in_words(sorted(known)), *others]),
                next=f"{_WHERE} {min(known, default=1)}",
            )
    return tuple(sorted(found))


def ask_down(
    snapshot: ClusterSnapshot,
    release: ReleaseFacts,
    brokers: Sequence[int],
    *,
    pattern: str = "*",
    progress: Callable[[int, int], None] = lambda done, of: None,
    states_max: int = STATES_MAX,
) -> DownAnswer:
    """Return what taking the brokers down now does to their partitions."""
    down = frozenset(brokers)
    live = frozenset(one.id for one in snapshot.brokers)
    defaults = broker_level(snapshot)
    desk = _Desk(release, states_max)
    asked = list(partitions_of(snapshot, pattern))
    unseen = [one.name for one in snapshot.topics if one.is_planned and fnmatchcase(one.name, pattern)]
    hosted = [one for one in asked if down & set(one[2].replicas) and (snapshot.is_planned or not one[0].is_planned)]
    leaderless, refused, already = [], [], []
    at_risk: dict[str, list[str]] = {}
    unknown = {UNSEEN: unseen} if unseen else {}
    for done, (topic, name, listed) in enumerate(hosted):
        progress(done, len(hosted))
        partition = release.counted(listed)
        settings = settings_of({**defaults, **topic.configs}, len(final_replicas(partition)))
        if why := _not_searched(partition, settings.rf):
            unknown.setdefault(why, []).append(name)
            continue
        ask = _Partition(partition, settings.effective_min_isr, settings.flushes_each_record, settings.unclean, live)
        now, then = desk.standing(ask, frozenset()), desk.standing(ask, down)
        # What one replica loses is a line of the advice: no partition is in danger by its settings alone.
        if not now.has_leader or not now.is_acked or (settings.rf > 1 and "loses" in now.risks.values()):
            already.append(name)
        if now.has_leader and not then.has_leader:
            leaderless.append(name)
        elif now.is_acked and not then.is_acked:
            refused.append(name)
        for what, risk in then.risks.items() if live - down else ():
            if risk == "loses" and now.risks[what] != "loses" and settings.rf > 1:
                at_risk.setdefault(ONE_MORE[what], []).append(name)
            if risk == "unknown":
                unknown.setdefault(f"too many states to say what follows if {ONE_MORE[what]}", []).append(name)
    majority, quorum = _quorum(snapshot, down)
    worse = bool(leaderless or refused or at_risk or majority == "loses")
    is_open = bool(unknown or majority == "unknown" or snapshot.notes)  # the notes say what was not read
    return DownAnswer(
        brokers=tuple(brokers),
        not_alive=tuple(sorted(down - live)),
        says="not safe" if worse else "unknown" if is_open else "safe",
        partitions=len(hosted),
        leaderless=tuple(leaderless),
        refused=tuple(refused),
        at_risk={what: tuple(names) for what, names in at_risk.items()},
        already=tuple(already),
        unknown={why: tuple(names) for why, names in unknown.items()},
        quorum=quorum,
        notes=(*snapshot.notes, *snapshot.assumed),
    )


def _quorum(snapshot: ClusterSnapshot, down: AnySet[int]) -> tuple[Risk, str | None]:
    """Return whether the majority of the controllers survives, and a sentence if a controller goes down, or may."""
    voters = snapshot.controllers
    if voters is None:
        says = "files with process.roles say" if snapshot.is_of_files else "the right DESCRIBE on the cluster shows"
        return "unknown", f"nobody named the controllers, so their majority is unknown; {says} who they are"
    gone = [one for one in voters if one in down]
    if not gone:
        return "survives", None
    dead = hosting_brokers(snapshot) - {one.id for one in snapshot.brokers}
    left = len(voters) - len({*gone, *(one for one in voters if one in dead)})
    are = f"{brokers_in_words(gone)} {'is a controller' if len(gone) == 1 else 'are controllers'}, too"
    counted = f"{left} of {len(voters)} controllers" if left else "no controller"
    rest = f"{are}; {counted} {'are' if left > 1 else 'is'} left"
    if left >= _majority_of(voters):
        return "survives", f"{rest}, enough if all of them run"
    return "loses", f"{rest}: no leader is elected, and no metadata changes"


def _majority_of(voters: Sequence[int]) -> int:
    """Return how many voters elect a controller and commit metadata."""
    return len(voters) // 2 + 1


def controllers_note(snapshot: ClusterSnapshot) -> str:
    """Return how many controllers may be down, and be empty, by the rules of Raft: the model has no controllers."""
    voters = snapshot.controllers
    if not voters:
        return "nobody named the controllers, so nothing is said about them"
    combined = set(voters) & {one.id for one in snapshot.brokers}
    each = "each also a broker" if len(voters) > 1 else "also a broker"
    kind = f", {each}" if combined == set(voters) else f", {len(combined)} also brokers" if combined else ""
    need = _majority_of(voters)
    spare = len(voters) - need
    down = f"{spare} may be down" if spare else "none may be down"
    empty = "one may return empty while the others are up to date; " if spare else ""
    lost = (
        f"{need} that return empty may elect each other, and all topics are gone"
        if need > 1
        else ("if it returns empty, all topics are gone")
    )
    return f"{plural(len(voters), 'controller')}{kind}: {down}; {empty}{lost}"


def _not_searched(partition: SnapshotPartition, rf: int) -> str | None:
    if partition.adding or partition.removing:
        return "being reassigned"
    if rf > MAX_BROKERS:
        return f"the model has at most {MAX_BROKERS} brokers"
    if partition.elr is None and len(partition.isr) < rf:
        return "the brokers did not say who is in the ELR"
    return None


class _Partition(NamedTuple):
    partition: SnapshotPartition
    min_isr: int
    is_flushed: bool
    unclean: bool
    live: frozenset[int]

    def word(self, broker: int) -> int:
        """Return the model's word of a replica, as the snapshot has it."""
        one = self.partition
        elr, last_known = one.elr or (), one.last_known_elr or ()
        control = w.REPLICA | (_LIVE if broker in self.live else w.REGISTERED)
        control |= w.IN_ISR if broker in one.isr else 0
        control |= w.IN_ELR if broker in elr else 0
        control |= w.LAST_KNOWN if broker in last_known else 0
        control |= w.LEADER if broker == one.leader else 0
        return control << DATA_BITS | (_RECORD if broker in one.isr or broker in elr else 0)


class _Desk:
    """Asks the model about partitions of one release; partitions that stand alike are asked once."""

    def __init__(self, release: ReleaseFacts, states_max: int) -> None:
        self._release = release
        self._states_max = states_max
        self._known: dict[tuple[object, ...], _Standing] = {}

    def standing(self, ask: _Partition, down: AnySet[int]) -> _Standing:
        """Return how a partition stands once the brokers in `down` are stopped."""
        words = sorted((ask.word(one), one in down) for one in ask.partition.replicas)
        key = (ask.min_isr, ask.is_flushed, ask.unclean, *words)
        if key not in self._known:
            self._known[key] = self._ask(ask, words)
        return self._known[key]

    def _ask(self, ask: _Partition, words: Sequence[tuple[int, bool]]) -> _Standing:
        stopped = [at for at, (word, goes) in enumerate(words) if goes and word >> DATA_BITS & w.UP]
        budgets: dict[str, dict[str, Any]] = {
            "power": {"kills": 1} if ask.is_flushed else {"power_losses": 1},
            "disk": {"kills": 1, "disks": 1},
        }
        risks: dict[str, Risk] = {}
        states: list[list[int]] = []
        for what, budget in budgets.items():
            bounds = Bounds(
                rf=len(words),
                min_isr=ask.min_isr,
                unclean=ask.unclean,
                records=2,
                cuts=False,
                stops=min(len(stopped), MAX_BUDGET),
                **budget,
            )
            first = _StartedMachine(self._release, bounds, []).state_of([word for word, _ in words])
            states = list(self._stopped(bounds, first, stopped))
            risks[what] = self._worst(bounds, states)
            if what == "disk" and new_disk_empties_elr(self._release) and self._one_is_in_sync(states):
                risks[what] = "loses"
        has_leader = all(any(word >> DATA_BITS & w.LEADER for word in state[2:]) for state in states)
        in_sync = min(sum(bool(word >> DATA_BITS & w.IN_ISR) for word in state[2:]) for state in states)
        refuses = self._release.refuses_acks_all(len(words), ask.min_isr)
        return _Standing(has_leader, has_leader and in_sync >= ask.min_isr and not refuses, risks)

    @staticmethod
    def _one_is_in_sync(states: Sequence[Sequence[int]]) -> bool:
        """Whether the ISR is one replica and others are eligible: apache/kafka#20716, which the model does not have."""
        return any(
            sum(bool(word >> DATA_BITS & w.IN_ISR) for word in state[2:]) <= 1
            and any(word >> DATA_BITS & w.IN_ELR for word in state[2:])
            for state in states
        )

    def _stopped(self, bounds: Bounds, state: list[int], stopped: Sequence[int]) -> Iterator[list[int]]:
        """Yield each state after clean stops of the brokers at these positions, one after the other.

        Of brokers with equal words only the first can act, and they are interchangeable.
        """
        if not stopped:
            yield state
            return
        wanted, *others = stopped
        at = state.index(state[2 + wanted], 2) - 2
        rest = [wanted if one == at else one for one in others]
        for move in _StartedMachine(self._release, bounds, state).moves(state):
            if move.action.kind == "stop" and move.action.broker == at:
                yield from self._stopped(bounds, [move.shared, move.data, *move.words], rest)

    def _worst(self, bounds: Bounds, states: Sequence[list[int]]) -> Risk:
        asked = PROPERTIES["acks-all"]
        answers = [
            ask_machine(_StartedMachine(self._release, bounds, state), asked, max_states=self._states_max)
            for state in states
        ]
        if any(one.trace is not None for one in answers):
            return "loses"
        return "survives" if answers and all(one.holds for one in answers) else "unknown"


class _StartedMachine(Machine):
    """A machine that begins in a state of somebody's cluster, and not in a new one."""

    def __init__(self, release: ReleaseFacts, bounds: Bounds, state: Sequence[int]) -> None:
        super().__init__(VARIANTS[release.variant], release.cluster(), bounds, PROPERTIES["acks-all"].promise)
        self._state = tuple(state)

    def initial_state(self) -> list[int]:
        """Return the state to begin in."""
        return list(self._state)

    def state_of(self, words: Sequence[int]) -> list[int]:
        """Return the state of these replicas, of which those in the ISR have one record that was acked."""
        shared = super().initial_state()[0]
        data = Data(appended=1, committed=_RECORD, acked=_RECORD, strong=_RECORD)
        return [shared, data.pack(), *words]
