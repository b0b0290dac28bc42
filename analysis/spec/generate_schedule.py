"""Turns a counterexample into a schedule of operations that brings the loss about.

The counterexample's own operations come first. Where the loss does not show when they are played,
followers are held back from their leader, or the operations are put in another order. Then each operation
that the loss does not need is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, permutations

import msgspec

from analysis.spec.explore.eager import Operation, play
from analysis.spec.explore.trace import Step, Trace
from analysis.spec.model import words as w
from analysis.spec.model.bounds import ADMIN_KINDS, MAX_BUDGET, Bounds
from analysis.spec.model.machine import Machine
from analysis.spec.model.words import DATA_BITS, MAX_RECORDS
from analysis.spec.partition import Cluster
from analysis.spec.variants import VARIANTS, cluster_for, release_of
from ebbtide.errors import UsageError
from ebbtide.releases.known_releases import ELR_VERSION

_PERMUTED = 6
"""Longer schedules are not tried in all orders."""

REQUESTS = frozenset(
    {
        "reassign",
        "cancel-reassignment",
        "set-min-isr",
        "set-feature",
        "unregister",
        "resize-first-partition",
        "elect-preferred",
        "elect-unclean",
    }
)
"""What somebody asks a cluster for."""
_DIRECT = REQUESTS | {"power-loss", "kill", "stop", "start", "replace-disk"}


def describe_operation(operation: Operation) -> str:
    """Return an operation in a word or two."""
    whom = " ".join(map(str, operation.brokers))
    number = str(operation.value) if operation.kind.startswith(("set-", "resize-")) else ""
    return " ".join(part for part in (operation.kind, whom, number) if part)


def schedule_of(variant: str, bounds: Bounds, found: Trace, cluster: Cluster | None = None) -> list[Operation]:
    """Return the operations that bring a counterexample about.

    Raises UsageError where none do. `cluster` has the feature levels; None: those of a new cluster.
    """
    loses = _loses(variant, bounds, cluster)
    operations = _operations(found)
    schedule = next((one for one in _variations(operations, bounds) if loses(one)), None)
    if schedule is None:
        raise UsageError(
            "no scenario can bring this counterexample about",
            got=", ".join(describe_operation(operation) for operation in operations),
            allowed="counterexamples that do not depend on a request in flight, or on a config that is read late",
            next="ebbtide spec check with the same options shows it",
        )
    return _without_needless(schedule, loses)


class PlayabilityFilter:
    """Decides which counterexamples steps can bring about.

    Each schedule is tried once, and at most `TRIES` of them.
    """

    TRIES = 200

    def __init__(self, variant: str, bounds: Bounds, cluster: Cluster | None = None) -> None:
        self._bounds = bounds
        self._loses = _loses(variant, bounds, cluster)
        self._tried: set[tuple[Operation, ...]] = set()

    def __call__(self, found: Trace) -> bool:
        operations = _operations(found)
        if tuple(operations) in self._tried:
            return False
        self._tried.add(tuple(operations))
        # Beyond the last try any counterexample is taken, and `scenario_of` says that no step can
        # bring it about.
        return len(self._tried) > self.TRIES or any(self._loses(one) for one in _variations(operations, self._bounds))


def _loses(variant: str, bounds: Bounds, cluster: Cluster | None) -> Callable[[Sequence[Operation]], bool]:
    machine = ample_machine(variant, bounds, elr=VARIANTS[variant].has_elr, cluster=cluster)

    def loses(operations: Sequence[Operation]) -> bool:
        played = play(machine, operations)
        return played.impossible < 0 and played.lost_at > 0

    return loses


def _operations(found: Trace) -> list[Operation]:
    """Return what was done to the cluster in a counterexample.

    Sessions of running brokers expire because the brokers are cut off.
    """
    operations: list[Operation] = []
    words, cut, asking = found.initial, set[int](), 0
    for number, step in enumerate(found.steps):
        leader = _leader(words)
        running = bool(step.broker and words[step.broker] >> DATA_BITS & w.UP)
        words = step.words
        late = step.kind in ("ask-expand", "ask-shrink") and _arrives_late(found.steps[number:])
        if late:
            asking = leader
            # The leader asks because of the last cut that healed, or because of the next one.
            at = len(operations) - (step.kind == "ask-expand" and bool(operations) and operations[-1].kind == "rejoin")
            operations.insert(at, Operation("hold-requests", (leader,)))
        elif step.kind == "deliver" and asking:
            operations.append(Operation("release", (asking,)))
            asking = 0
        elif step.kind == "set-min-isr" and step.shared.leader_min_isr != step.shared.min_isr:
            operations.append(Operation("hold-metadata", (leader,)))
        if step.kind == "fence" and running and step.broker not in cut:
            cut.add(step.broker)
            operations.append(Operation("isolate", (step.broker,)))
        elif step.kind in ("unfence", "ask-expand", "start") and step.broker in cut:
            cut.discard(step.broker)
            operations.append(Operation("rejoin", (step.broker,)))
        elif step.kind == "ask-shrink":
            behind = tuple(broker for broker in step.brokers if broker not in cut)
            cut |= set(behind)
            operations.append(Operation("hold-back", behind))
        if step.kind == "reassign":
            order = found.orders.get(number, step.brokers)
            operations.append(Operation("reassign", tuple(broker for broker in order if broker in step.brokers)))
        elif step.kind in _DIRECT:
            operations.append(Operation(step.kind, (step.broker,) if step.broker else (), step.detail))
    return operations


def _leader(words: Mapping[int, int]) -> int:
    return next((broker for broker, word in words.items() if word >> DATA_BITS & w.LEADER), 0)


def _arrives_late(steps: Sequence[Step]) -> bool:
    """Return whether something is done to the cluster before a request arrives.

    The request is the first of `steps`.
    """
    for step in steps[1:]:
        if step.kind == "deliver":
            return False
        if step.kind not in ("append", "fetch", "advance-hw"):
            return any(later.kind == "deliver" for later in steps)
    return False


def _variations(operations: list[Operation], bounds: Bounds) -> Iterator[list[Operation]]:
    """Yield variations of a schedule, the simplest first.

    The variations are: no request held; as it is; some brokers held back from some point on;
    another order. In the counterexample a session may outlive its broker. Where it does not, the
    same operations may have to come in another order.
    """
    at_once = [operation for operation in operations if operation.kind not in ("hold-requests", "release")]
    if at_once != operations and len(at_once) <= _PERMUTED:
        yield from (list(order) for order in permutations(at_once))
    if at_once != operations and any(operation.kind == "hold-metadata" for operation in operations):
        return  # a release would let the metadata go, too
    yield operations
    for count in range(1, bounds.size):
        for brokers in combinations(range(1, bounds.size + 1), count):
            for at in range(len(operations) + 1):
                yield [*operations[:at], Operation("hold-back", brokers), *operations[at:]]
    if at_once == operations and len(operations) <= _PERMUTED:
        yield from (list(order) for order in permutations(operations))


def _without_needless(schedule: list[Operation], loses: Callable[[Sequence[Operation]], bool]) -> list[Operation]:
    """Return the schedule without the operations that the loss does not need."""
    at = 0
    while at < len(schedule):
        without = schedule[:at] + schedule[at + 1 :]
        if loses(without):
            schedule, at = without, 0
        else:
            at += 1
    return schedule


def ample_machine(variant: str, bounds: Bounds, *, elr: bool, cluster: Cluster | None = None) -> Machine:
    """Return the variant's machine with budgets for any schedule.

    `cluster` has the feature levels, instead of those of a new cluster with the ELR on or off.
    """
    unbounded = msgspec.structs.replace(
        bounds,
        records=MAX_RECORDS,
        power_losses=MAX_BUDGET,
        kills=MAX_BUDGET,
        disks=MAX_BUDGET,
        stops=MAX_BUDGET,
        admin=MAX_BUDGET,
        admin_kinds=ADMIN_KINDS,
        late_configs=True,
        cuts=True,
        in_turn=False,
        acks="all",
    )
    if cluster is None:
        cluster = cluster_for(release_of(variant), {ELR_VERSION: int(elr)}, (0,))
    return Machine(VARIANTS[variant], cluster, unbounded)
