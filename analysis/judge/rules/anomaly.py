"""Says what a kind of anomaly declares.

A kind is one module of a folder beside this one, with a `RULE`. All that is true of the kind stands there: the
reconciliation, the summary, the tables of the base layer and the pages are made from it
(`analysis.judge.rules.registry`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from analysis.judge.rules.rule import DeclaredRule
from analysis.reconcile.model import GroupsOfKind
from analysis.rows.facts import Facts
from analysis.rows.question import KindQuestion
from analysis.spark.sql import Column, DataFrame
from ebbtide.coverage_fact import Fact
from ebbtide.record.manifest import Manifest

if TYPE_CHECKING:
    from analysis.reconcile.work import Work


class Anomaly(DeclaredRule, frozen=True, kw_only=True):
    """A kind of anomaly: which rows are items, and what follows from one.

    - `means`: what an item is, for people.
    - `one`, `many`: what people call one item, and several.
    - `why_unknown`: why nothing, or not everything, can be judged in a run by its facts; None: all can.
    - `was_asked`: whether the Ebbtide that made the record asked for what the kind needs; None: each did. If not, its
      being unknown counts in no prediction, so that the record keeps its outcome.
    - `items` returns one row an item. A kind that compares what happened to one value has a `row` instead: the item of
      a row of the history, or null. All such kinds share one pass.
    - `groups`: how its items are grouped for the clauses and the causes; None: only their count counts.
    - `questions`: NumPy answers them first; if every answer is no, the kind cannot occur. They also say which rows the
      rule looks at, and why the kind is not known in a run.
    - `has_own_prediction`: a scenario predicts it by a key of its own, so `anomalies = "none"` does not cover it.
    - `allowed_by`: the key of a prediction that by "any" takes it out of `anomalies = "none"`; None: none does.
    - `depends_on_chance`: it depends on which request was under way, so a replay may lack it.
    - `is_loss`: where committed items have a cause, they are among the gravest facts of a run; uncommitted ones come
      after them.
    - `found_as`: what findings call the kind, with `{}` for committed or uncommitted; empty: they call it by its name.
    - `expected_by`: the key of a prediction that expects items by "some", with `{}` as in `found_as`; empty: none does.
    - `headline`: what the sentence at the top of a page says of one item, and of several; None: nothing.
    - `despite`: what is wrong with a record that is in the final log, to end a sentence on it; empty: nothing.
    - `fact`: the coverage fact that counts its items; None: none does.
    """

    means: str
    one: str
    many: str
    questions: tuple[type[KindQuestion], ...]
    why_unknown: Callable[[Facts], str | None] | None = None
    was_asked: Callable[[Manifest], bool] | None = None
    items: Callable[[Work], DataFrame | None] | None = None
    row: Callable[[Sequence[Facts]], Column] | None = None
    groups: GroupsOfKind | None = None
    has_own_prediction: bool = False
    allowed_by: str | None = None
    depends_on_chance: bool = False
    is_loss: bool = False
    found_as: str = ""
    expected_by: str = ""
    headline: tuple[str, str] | None = None
    despite: str = ""
    fact: Fact | None = None

    @property
    def module(self) -> str:
        """The module of the function that says which rows are items."""
        found = self.items or self.row
        assert found is not None
        return found.__module__
