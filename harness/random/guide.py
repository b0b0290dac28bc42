"""Chooses the next random schedule: a new one, or a mutation of an earlier one.

It mutates and splices schedules that reached rare states. The result is valid and ends healed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random

import msgspec

from ebbtide.record.files import append_line, read_lines
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.plain_values import read_part, rename_brokers, to_plain
from ebbtide.scenario.steps.step import StepSpec
from ebbtide.scenario.steps.table import StepKind
from harness.random.drawing import STEPS, draw, with_steps, without_frame

Slots = list[StepSpec | None]
"""The steps of a schedule in the making; None is a step still to draw, for the state it falls into."""
_MUTATIONS_MAX = 3
_SPLICE_PROBABILITY = 0.5


def mutate(
    base: Scenario, other: Scenario, random: Random, *, seed: int, steps: int, without: Collection[StepKind] = ()
) -> Scenario:
    """Return a mutation of `base` with about `steps` steps, on the cluster of `base`.

    Sometimes it has parts of `other`. Its description names the schedules it comes from. The same arguments give the
    same schedule. No step is of the kinds `without`.
    """
    slots: Slots = [*without_frame(base.steps)]
    sources = [base.name]
    if other.name != base.name and random.random() < _SPLICE_PROBABILITY:
        others: Slots = [*without_frame(other.steps)]
        slots = slots[: random.randint(0, len(slots))] + others[random.randint(0, len(others)) :]
        sources.append(other.name)
    for _ in range(random.randint(1, _MUTATIONS_MAX)):
        slots = random.choice(_MUTATIONS)(slots, random, base.cluster.brokers)
    slots += [None] * (steps - len(slots))
    # The healing steps at the end come on top of the drawn ones, so the result may have more steps than asked.
    while len(slots) > steps + steps // 2:
        slots = _drop(slots, random, base.cluster.brokers)
    setting = msgspec.structs.replace(
        base,
        name=f"random-{seed}",
        title=f"A random schedule, mutated with seed {seed}",
        description=f"Mutated with seed {seed} from {' and '.join(sources)}, whose runs reached rare states.",
    )
    return with_steps(setting, slots, random, without=without)


def _drop(slots: Slots, random: Random, _brokers: int) -> Slots:
    at = random.randrange(len(slots) + 1)
    return slots[:at] + slots[at + random.randint(1, 3) :]


def _insert(slots: Slots, random: Random, _brokers: int) -> Slots:
    at = random.randrange(len(slots) + 1)
    return [*slots[:at], *[None] * random.randint(1, 3), *slots[at:]]


def _renew_end(slots: Slots, random: Random, _brokers: int) -> Slots:
    """Keep the steps that led to the rare state, and draw new ones after them."""
    at = random.randrange(len(slots) + 1)
    return [*slots[:at], *[None] * max(3, len(slots) - at)]


def _repeat(slots: Slots, random: Random, _brokers: int) -> Slots:
    at = random.randrange(len(slots) + 1)
    return slots[:at] + slots[max(0, at - random.randint(2, 5)) : at] + slots[at:]


def _swap(slots: Slots, random: Random, _brokers: int) -> Slots:
    if len(slots) < 2:
        return slots
    at = random.randrange(len(slots) - 1)
    return [*slots[:at], slots[at + 1], slots[at], *slots[at + 2 :]]


def _rename(slots: Slots, random: Random, brokers: int) -> Slots:
    """Permute the brokers in all steps from a random one on."""
    ids = list(range(1, brokers + 1))
    permutation = dict(zip(ids, random.sample(ids, len(ids)), strict=True))
    at = random.randrange(len(slots) + 1)
    return slots[:at] + [one if one is None else rename_brokers(one, permutation) for one in slots[at:]]


_MUTATIONS: Sequence[Callable[[Slots, Random, int], Slots]] = (
    *(_renew_end, _renew_end, _renew_end),
    *(_insert, _insert),
    *(_drop, _repeat, _swap, _rename),
)
"""Mutations that draw new steps are listed more often.

A rare state depends on the steps before it; what follows it is free.
"""

CORPUS = "corpus.jsonl"
_FRESH_SHARE = 0.4
"""The share of schedules that are drawn anew: a state that no run has reached is in no schedule of the corpus."""
_CORPUS_MIN = 4
_NOT_STATES = (
    "acked-",
    "not-acked-",
    "described-",
    "disks-",
    "kills",
    "clean-",
    "pauses",
    "power-losses",
    "partitions-cut",
    "one-way-cuts",
    "links-limited",
    "requests-",
    "lost-bytes",
    "brokers-fenced",
    "transitions-explained",
)
"""Prefixes of coverage facts that count what the schedule did or how much there was, not a state of the cluster."""
_MANY = (1, 2, 4)


class CorpusEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the corpus: a schedule that ran, and its coverage.

    `coverage` is that of its verdict.json.
    """

    scenario: Scenario
    coverage: dict[str, int]


def coverage_marks(coverage: Mapping[str, int]) -> Iterator[str]:
    """Yield marks for the states that a run reached, and for how often.

    Examples: `recovering`, `recovering x2`, `recovering x4`.
    """
    for fact, count in coverage.items():
        if not fact.startswith(_NOT_STATES):
            yield from (fact if many == 1 else f"{fact} x{many}" for many in _MANY if count >= many)


def read_corpus(path: Path) -> list[CorpusEntry]:
    """Return the schedules of a corpus file, oldest first. Raises `UsageError` for a damaged one."""
    remedy = "remove the line, or use another folder"
    return read_lines(path, CorpusEntry, what="corpus", next=remedy, dec_hook=read_part)


class Guide:
    """Chooses the next schedule from the corpus in `folder`/corpus.jsonl.

    The corpus is a file, so that a killed night can continue. Schedules that ran on another release or with other
    feature levels stay in the corpus but are not mutated here.
    """

    def __init__(
        self,
        folder: Path,
        *,
        kafka: str,
        features: Mapping[str, int] | None = None,
        steps: int = STEPS,
        without: Collection[StepKind] = (),
        guided: bool = True,
    ) -> None:
        """Read the corpus. `guided` false draws every schedule anew, for comparison.

        Raises `UsageError` for a damaged corpus.
        """
        self._path = folder / CORPUS
        self._kafka = kafka
        self._features = dict(features or {})
        self._steps = steps
        self._without = without
        self._guided = guided
        folder.mkdir(parents=True, exist_ok=True)
        self._entries = [one for one in read_corpus(self._path) if self._has_same_target(one.scenario)]

    def next_schedule(self, seed: int) -> Scenario:
        """Return the schedule of `seed`: a mutation of rare runs, or a new one.

        Rare runs are those that reached rare marks.
        """
        random = Random(seed)
        known = [one for one in self._entries if one.coverage]
        if not self._guided or len(known) < _CORPUS_MIN or random.random() < _FRESH_SHARE:
            return draw(seed, kafka=self._kafka, features=self._features, steps=self._steps, without=self._without)
        seen = self.runs_by_mark()
        weights = [sum(seen[mark] ** -2 for mark in coverage_marks(one.coverage)) or 1e-9 for one in known]
        base, other = random.choices(known, weights, k=2)
        return mutate(base.scenario, other.scenario, random, seed=seed, steps=self._steps, without=self._without)

    def add(self, scenario: Scenario, coverage: Mapping[str, int]) -> None:
        """Add a run of `scenario` to the corpus.

        Empty `coverage` says that the run was not judged.
        """
        entry = CorpusEntry(scenario=scenario, coverage=dict(coverage))
        append_line(self._path, msgspec.json.encode(to_plain(entry)) + b"\n")
        if self._has_same_target(scenario):
            self._entries.append(entry)

    def has_run(self, name: str) -> bool:
        """Whether the corpus has the schedule of this name."""
        return any(one.scenario.name == name for one in self._entries)

    def runs_by_mark(self) -> Counter[str]:
        """Count the runs that reached each mark."""
        return Counter(mark for one in self._entries for mark in coverage_marks(one.coverage))

    def _has_same_target(self, scenario: Scenario) -> bool:
        return scenario.kafka == (self._kafka,) and scenario.cluster.features == self._features
