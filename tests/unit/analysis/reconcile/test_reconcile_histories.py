"""Histories that Hypothesis draws against the rules written a second time in plain Python.

`EBBTIDE_HISTORIES=5000` draws so many, others at each call; `--hypothesis-seed` draws the same again. One that differs
is told as the fewest of its rows that still do.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy
from pyspark.sql import SparkSession
from quick import quick_first
from reconcile_batches import Comparison, compare, reduce_history
from reconcile_histories import PLAIN, History, histories, planted_histories

from analysis.judge.rules.registry import ANOMALIES
from analysis.reconcile import crowds
from analysis.rows import summing

T = TypeVar("T")

pytestmark = pytest.mark.spark

HISTORIES = int(os.environ.get("EBBTIDE_HISTORIES", "125"))
BATCH = 250
"""So many are reconciled in the same jobs."""

KINDS = {kind.name for kind in ANOMALIES}


class EnoughError(Exception):
    """As many were drawn as were asked for."""


@cache
def draw_histories(number: int) -> tuple[list[History], list[tuple[History, ...]]]:
    """So many composed histories, no two the same, and for each 125 of them a round of every kind planted.

    Without the variable they are the same at every call.
    """
    planted = _examples(planted_histories(), max(1, number // 125), lambda some: "".join(map(History.describe, some)))
    return _examples(histories(), number, History.describe), planted


def _examples(strategy: SearchStrategy[T], number: int, describe: Callable[[T], str]) -> list[T]:
    found: dict[str, T] = {}

    # Only draws: a history alone would cost a Spark job, so they are judged together, and shrunk by their rows.
    @settings(
        max_examples=10 * number,
        phases=[Phase.generate],
        derandomize="EBBTIDE_HISTORIES" not in os.environ,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def draw(example: T) -> None:
        found[describe(example)] = example
        if len(found) >= number:
            raise EnoughError

    with pytest.raises(EnoughError):
        draw()
    return list(found.values())


@pytest.mark.parametrize("narrows", quick_first([True, False]))
def test_spark_and_plain_python_agree_on_drawn_histories(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, narrows: bool
) -> None:
    if not narrows:
        monkeypatch.setattr(summing, "BLOCKS_MAX", -1)
    # Most offsets with two values then have more than are listed: what is left out must not decide anything.
    monkeypatch.setattr(crowds, "LISTED", 1)
    calls = count()

    def compare_histories(some: Sequence[History]) -> list[Comparison]:
        return compare(spark, tmp_path / str(next(calls)), some)

    composed, planted = draw_histories(HISTORIES)
    mine = [*composed, *(history for some in planted for history in some)]
    judged: list[Comparison] = []
    for first in range(0, len(mine), BATCH):
        batch = mine[first : first + BATCH]
        for number, (history, one) in enumerate(zip(batch, compare_histories(batch), strict=True), first):
            if one.wrong is not None:
                smallest, wrong = reduce_history(history, one.wrong, compare_histories)
                pytest.fail(f"history {number} of {len(mine)}\n{wrong}\n{smallest.describe()}", pytrace=False)
            if history.planted is None:
                judged.append(one)
    # Of few histories none may come to some kind. What is planted comes to all, and would prove nothing here.
    if HISTORIES >= 125:
        assert {kind for one in judged for kind in one.kinds} == KINDS
        assert {settled for one in judged for *_, settled in one.told["commit-back"]} == {False, True}
        duplicates = {tuple(by) for one in judged for _topic, _partition, *by in one.told["duplicate"]}
        assert len(duplicates) == 8, "a group that no history has"


def test_a_history_that_differs_is_reduced_to_the_rows_by_which_it_does() -> None:
    rows = tuple(("polls", {"offset": offset, "value": offset}) for offset in range(50))
    calls = []

    def differs(some: Sequence[History]) -> list[Comparison]:
        calls.append(len(some))
        held = [{row["offset"] for _, row in history.rows} for history in some]
        # Two rows together, or, another way to it, three.
        wrong = [{7, 31} <= offsets or {3, 8, 40} <= offsets for offsets in held]
        return [Comparison(kinds=frozenset(), wrong="differs" if one else None) for one in wrong]

    smallest, wrong = reduce_history(History(setup=PLAIN, rows=rows), "differs", differs)
    assert wrong == "differs"
    assert [row["offset"] for _, row in smallest.rows] in ([7, 31], [3, 8, 40])
    assert len(calls) < 20
