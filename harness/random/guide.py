"""Chooses the next random schedule: a new one, or a mutation of an earlier one.

It mutates schedules that reached rare states.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from random import Random

import msgspec

from ebbtide.record.files import append_line, read_lines
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.plain_values import read_part, to_plain
from ebbtide.scenario.steps.table import StepKind
from harness.random.drawing import STEPS, draw
from harness.random.mutation import mutate

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
