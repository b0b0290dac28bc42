"""Guides a campaign of random schedules by what their runs reached: rare states breed the next schedules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from random import Random

import msgspec

from ebbtide.record.json_files import append_line, read_lines
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.plain import read_text, write_text
from ebbtide.scenario.steps.table import StepKind
from harness.random.breeding import breed
from harness.random.drawing import STEPS, draw

CORPUS = "corpus.jsonl"
_FRESH_SHARE = 0.4
"""So many schedules are drawn anew all the same: what nobody has reached is in no parent."""
_PARENTS_MIN = 4
_NO_STATES = (
    "acked-",
    "not-acked-",
    "described-",
    "disks-",
    "kills",
    "clean-stops",
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
"""How coverage facts begin that count what the schedule did, or how much there was, and no state that came about."""
_MANY = (1, 2, 4)


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the corpus: a schedule that ran, and what its run reached (`coverage` of verdict.json)."""

    scenario: Scenario
    coverage: dict[str, int]


def marks(coverage: Mapping[str, int]) -> Iterator[str]:
    """What a run reached, as marks that it shares with others or not: `recovering`, `recovering x2`, ..."""
    for fact, count in coverage.items():
        if not fact.startswith(_NO_STATES):
            yield from (fact if many == 1 else f"{fact} x{many}" for many in _MANY if count >= many)


class Guide:
    """Says what to run next. What it was told is kept in `folder`/corpus.jsonl, so that a killed campaign goes on.

    Schedules that ran on another release or with other feature levels are kept, and are nobody's parents here.
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
        """`guided` false draws every schedule anew, for comparison. Raises `UsageError` for a damaged corpus."""
        self._path = folder / CORPUS
        self._kafka = kafka
        self._features = dict(features or {})
        self._steps = steps
        self._without = without
        self._guided = guided
        folder.mkdir(parents=True, exist_ok=True)
        remedy = "take the line out, or begin another folder"
        all_told = read_lines(self._path, Told, what="corpus", next=remedy, dec_hook=read_text)
        self._told = [one for one in all_told if self._is_akin(one.scenario)]

    def next(self, seed: int) -> Scenario:
        """The schedule of `seed`: bred from those that reached rare marks, as far as was told; or drawn anew."""
        random = Random(seed)
        parents = [one for one in self._told if one.coverage]
        if not self._guided or len(parents) < _PARENTS_MIN or random.random() < _FRESH_SHARE:
            return draw(seed, kafka=self._kafka, features=self._features, steps=self._steps, without=self._without)
        seen = self.reached()
        weights = [sum(seen[mark] ** -2 for mark in marks(one.coverage)) or 1e-9 for one in parents]
        mother, father = random.choices(parents, weights, k=2)
        return breed(mother.scenario, father.scenario, random, seed=seed, steps=self._steps, without=self._without)

    def told(self, scenario: Scenario, coverage: Mapping[str, int]) -> None:
        """Keep what the run of `scenario` reached; empty: nothing is known of it."""
        told = Told(scenario=scenario, coverage=dict(coverage))
        append_line(self._path, msgspec.json.encode(told, enc_hook=write_text) + b"\n")
        if self._is_akin(scenario):
            self._told.append(told)

    def knows(self, name: str) -> bool:
        """Whether it was told of the schedule of this name."""
        return any(one.scenario.name == name for one in self._told)

    def reached(self) -> Counter[str]:
        """How many runs reached each mark."""
        return Counter(mark for one in self._told for mark in marks(one.coverage))

    def _is_akin(self, scenario: Scenario) -> bool:
        return scenario.kafka == (self._kafka,) and scenario.cluster.features == self._features
