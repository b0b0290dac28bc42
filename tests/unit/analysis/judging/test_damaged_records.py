"""No damage makes a verdict better: on recorded runs of the catalogue, and on such with a planted anomaly.

Each record is damaged in one place at a time, and in two at once, as `damage` has it. The places are rolled from a
fixed seed; EBBTIDE_DAMAGES=50 takes away every file and entry, and rolls 50 places for each kind and as many pairs.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from damage import Damage, combine, copy_of, damages, flaw, removals, remove_sums, write_current_sums
from plant import plant_aborted_read, plant_divergence, plant_duplicate, plant_lost_tail
from real_records import NAMES, unpack_record

from analysis.judging.many_records import judge_many
from ebbtide.record.verdict import Verdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TRANSACTIONS = "transactions-leader-kill-4.4.0"
_PLANTED: dict[str, tuple[str, Callable[[Path], None]]] = {
    "divergence": (_TRANSACTIONS, plant_divergence),
    "aborted-read": (_TRANSACTIONS, plant_aborted_read),
    "duplicate": (_TRANSACTIONS, plant_duplicate),
    "lost-tail": ("last-replica-standing-4.4.0", plant_lost_tail),
}
_SEED = 19
_ALL = "EBBTIDE_DAMAGES" in os.environ
_PLACES = int(os.environ.get("EBBTIDE_DAMAGES", "0"))
_REMOVED = 2
"""So many files or entries of each record are taken away where not all are."""

_PAIRS = 1
"""So many pairs of damages each record has."""

_AT_ONCE = 150
"""Copies that are judged together, and on the disk at one time."""

_NOTHING = Damage("nothing", lambda _: None)


def records(folder: Path) -> Iterator[Path]:
    """Every recorded run, and those with something planted."""
    for name in NAMES:
        yield unpack_record(name, folder)
    yield from planted_records(folder)


def planted_records(folder: Path) -> Iterator[Path]:
    """Recorded runs with something planted."""
    for what, (name, plant) in _PLANTED.items():
        record = unpack_record(name, folder / "planted").rename(folder / f"{name}-{what}")
        plant(record)
        yield record


def sample_damage(found: list[Damage], name: str) -> list[Damage]:
    return found if _ALL else random.Random(f"{name} {_SEED}").sample(found, _REMOVED)


def pairs(record: Path) -> list[Damage]:
    """A few pairs of damages at once."""
    rolled = random.Random(f"{record.name} {_SEED} pairs")
    found = [*removals(record), *damages(record, _SEED, 3)]
    return [combine(*rolled.sample(found, 2)) for _ in range(_PLACES or _PAIRS)]


def flaws(spark: SparkSession, damaged: Sequence[tuple[Path, list[Damage]]], folder: Path) -> list[str]:
    """What is wrong with the verdicts on damaged copies of the records, all of which are judged together."""
    whole = [(record, copy_of(record, folder / f"{record.name}.whole", _NOTHING)) for record, _ in damaged]
    before = dict(zip((record for record, _ in whole), judge_many([copy for _, copy in whole], spark), strict=True))
    each = [(record, damage) for record, found in damaged for damage in found]
    found: list[str] = []
    for first in range(0, len(each), _AT_ONCE):
        part = each[first : first + _AT_ONCE]
        copies = [copy_of(record, folder / str(number), damage) for number, (record, damage) in enumerate(part)]
        for (record, damage), (copy, after) in zip(part, judge_many(copies, spark), strict=True):
            verdict = before[record][1]
            assert isinstance(verdict, Verdict), verdict
            if (wrong := flaw(verdict, after)) is not None:
                found.append(f"{record.name}: {damage.name}: {wrong}")
            shutil.rmtree(copy)
    return found


@pytest.mark.slow
@pytest.mark.spark
def test_no_damage_and_nothing_missing_makes_a_verdict_better(spark: SparkSession, tmp_path: Path) -> None:
    damaged = []
    for record in records(tmp_path / "whole"):
        write_current_sums(record)
        found = [*sample_damage([*removals(record)], record.name)]
        found += (
            damages(record, _SEED, _PLACES) if _ALL else sample_damage([*damages(record, _SEED, 1)], record.name)[:1]
        )
        found += pairs(record)
        damaged.append((record, found))
    assert flaws(spark, damaged, tmp_path) == []


@pytest.mark.slow
@pytest.mark.spark
def test_nothing_missing_makes_the_verdict_better_on_a_record_without_checksums(
    spark: SparkSession, tmp_path: Path
) -> None:
    damaged = []
    for record in records(tmp_path / "whole"):
        remove_sums(record)
        damaged.append((record, sample_damage([*removals(record)], f"{record.name} unsummed")))
    assert flaws(spark, damaged, tmp_path) == []


@pytest.mark.spark
def test_what_is_planted_is_found(spark: SparkSession, tmp_path: Path) -> None:
    """Else a verdict could get no better, and the tests above would prove nothing."""
    found = list(planted_records(tmp_path))
    for record, (_, verdict) in zip(found, judge_many(found, spark), strict=True):
        assert isinstance(verdict, Verdict)
        assert verdict.outcome == "contradicted", (record.name, verdict.why)
