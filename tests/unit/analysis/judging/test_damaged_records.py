"""No damage makes a verdict better: on recorded runs of the catalogue, and on such with a planted anomaly.

Each record is damaged in one place at a time, and in two at once, as `damage` has it. The places are rolled from a
fixed seed; EBBTIDE_DAMAGES=50 takes away every file and entry, and rolls 50 places for each kind and as many pairs.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from damage import Damage, combine, copy_of, damages, flaw, removals, remove_sums, write_current_sums
from plant import plant_aborted_read, plant_divergence, plant_duplicate, plant_lost_tail
from quick import quick_first
from real_records import NAMES, unpack_record
from records import as_record

from analysis.judging.many_records import judge_many
from ebbtide.record.sums import SUMS
from ebbtide.record.verdict import Verdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TRANSACTIONS = "transactions-leader-kill-4.4.0"
_PLANTED: dict[str, tuple[str, Callable[[Path], None]]] = {
    "lost-tail": ("last-replica-standing-4.4.0", plant_lost_tail),
    "duplicate": (_TRANSACTIONS, plant_duplicate),
    "divergence": (_TRANSACTIONS, plant_divergence),
    "aborted-read": (_TRANSACTIONS, plant_aborted_read),
}
_FIRST = 1
"""So many of them are tried by make test; make test-all has all, and each recorded run."""
_SEED = 19
_ALL = "EBBTIDE_DAMAGES" in os.environ
_PLACES = int(os.environ.get("EBBTIDE_DAMAGES", "0"))
_ROLLED = 1
"""So many files or entries of each record are taken away where not all are, and so many pairs of damages it has."""

_AT_ONCE = 200
"""Copies that are judged together, and on the disk at one time."""

_NOTHING = Damage("nothing", lambda _: None)


class DamagedCopy(NamedTuple):
    """A damage of a record, with the record's checksums or, as of an old version, without."""

    record: Path
    damage: Damage
    has_sums: bool = True

    def make(self, folder: Path) -> Path:
        copy = copy_of(self.record, folder, self.damage)
        if not self.has_sums:
            remove_sums(copy)
        return copy


def records(folder: Path) -> Iterator[Path]:
    """Every recorded run, and those with something planted."""
    for name in NAMES:
        yield unpack_record(name, folder)
    yield from planted_records(folder, len(_PLANTED))


def planted_records(folder: Path, count: int = _FIRST) -> Iterator[Path]:
    """Recorded runs with something planted."""
    for what, (name, plant) in islice(_PLANTED.items(), count):
        record = unpack_record(name, folder / "planted").rename(folder / f"{name}-{what}")
        plant(record)
        yield record


def sample_damage(found: list[Damage], name: str) -> list[Damage]:
    return found if _ALL else random.Random(f"{name} {_SEED}").sample(found, _ROLLED)


def pairs(record: Path) -> list[Damage]:
    """A few pairs of damages at once."""
    rolled = random.Random(f"{record.name} {_SEED} pairs")
    found = [*removals(record), *damages(record, _SEED, 3)]
    return [combine(*rolled.sample(found, 2)) for _ in range(_PLACES or _ROLLED)]


def damaged_copies(record: Path) -> Iterator[DamagedCopy]:
    """What is done to a record: first nothing, then damages with its checksums, then without."""
    yield DamagedCopy(record, _NOTHING)
    found = sample_damage([*removals(record)], record.name)
    found += damages(record, _SEED, _PLACES) if _ALL else sample_damage([*damages(record, _SEED, 1)], record.name)
    for damage in [*found, *pairs(record)]:
        yield DamagedCopy(record, damage)
    others = [one for one in removals(record) if one.name != f"{SUMS} removed"]
    for damage in sample_damage(others, f"{record.name} unsummed"):
        yield DamagedCopy(record, damage, has_sums=False)


def flaws(whole: Iterable[Path], folder: Path, spark: SparkSession) -> dict[bool, list[str]]:
    """What is wrong with the verdicts on damaged copies, with checksums (True) and without.

    All are judged in the same Spark jobs, and each is compared with the verdict on its record. Of a whole record that
    is the same with checksums and without: either way it has no gap. What is planted is found: else a verdict could
    get no better.
    """
    each: list[DamagedCopy] = []
    for record in whole:
        assert as_record(record).gaps == ()
        write_current_sums(record)
        assert as_record(record).gaps == ()
        each += damaged_copies(record)
    before: dict[Path, Verdict] = {}
    found: dict[bool, list[str]] = {True: [], False: []}
    for first in range(0, len(each), _AT_ONCE):
        part = each[first : first + _AT_ONCE]
        copies = [one.make(folder / str(number)) for number, one in enumerate(part)]
        for one, (copy, after) in zip(part, judge_many(copies, spark), strict=True):
            if one.damage is _NOTHING:
                assert isinstance(after, Verdict), after
                assert after.outcome == "contradicted" or one.record.name in NAMES, (one.record.name, after.why)
                before[one.record] = after
            elif (wrong := flaw(before[one.record], after)) is not None:
                found[one.has_sums].append(f"{one.record.name}: {one.damage.name}: {wrong}")
            shutil.rmtree(copy)
    return found


@pytest.mark.parametrize("whole", quick_first([planted_records, records]))
@pytest.mark.spark
def test_no_damage_and_nothing_missing_makes_a_verdict_better(
    whole: Callable[[Path], Iterator[Path]], spark: SparkSession, tmp_path: Path
) -> None:
    assert flaws(whole(tmp_path / "whole"), tmp_path / "damaged", spark) == {True: [], False: []}
