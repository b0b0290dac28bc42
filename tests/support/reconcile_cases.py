"""What a kind's cases are made of: what to build, and the items that it must lead to.

Each case is a topic of a record, which all cases of a setting share, whatever their kind: then Spark runs once for all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

from records import RecordBuilder

from analysis.reconcile.model import ItemGroup, Reconciliation

G = TypeVar("G", bound=ItemGroup)

Case = Callable[[RecordBuilder], object]
Expected = dict[str, list[tuple[int | None, int | None]]]
"""By kind, the (offset, value) of each item."""
Setting = Callable[[], RecordBuilder]
"""What a run is, apart from its topics."""
Cases = Mapping[Setting, Mapping[str, tuple[Case, Expected]]]
Unknown = Mapping[str, tuple[Setting, str]]
"""What to build, and how the reason begins why a kind is not known then."""
Mutant = tuple[ModuleType, str, str]
"""A module, a piece of its text that occurs once, and the text that replaces it."""

_VALUES_A_CASE = 1_000


def complete() -> RecordBuilder:
    """A run as it should be."""
    return RecordBuilder()


def interrupted() -> RecordBuilder:
    """A run that ended early."""
    return RecordBuilder(status="interrupted")


def no_final_read() -> RecordBuilder:
    """A run whose logs nobody read in the end."""
    return RecordBuilder(final_consumer=None)


def transactional() -> RecordBuilder:
    """A run with a producer of transactions."""
    return RecordBuilder().producer(1, transactional=True)


def read_committed() -> RecordBuilder:
    """A run with transactions, whose final read passes over what was not committed."""
    return transactional().on("other", base=900_000).final(1, isolation="read_committed")


def compacted() -> RecordBuilder:
    """A run of which some topics are compacted."""
    return RecordBuilder()


class Found(NamedTuple):
    """What a reconciliation found: the rows of anomalies/, and what the judge gets; `topic`: only of this one."""

    rows: Sequence[Mapping[str, Any]]
    reconciliation: Reconciliation
    topic: str | None = None

    def items(self, kind: str) -> list[Mapping[str, Any]]:
        """The items of a kind."""
        return [row for row in self.rows if row["kind"] == kind and self.topic in (None, row["topic"])]

    def groups(self, into: type[G], kind: str) -> list[G]:
        """The groups of items of a kind."""
        found = self.reconciliation.groups_of(into)
        return [one for one in found if one.kind == kind and self.topic in (None, one.topic)]


def build_cases(setting: Setting, cases: Sequence[Case]) -> RecordBuilder:
    """All cases as topics of one record."""
    builder = setting()
    for number, build in enumerate(cases):
        build(builder.on(f"case-{number}", base=number * _VALUES_A_CASE))
    return builder


def items_of(found: Reconciliation, number: int) -> Expected:
    """The items of one case."""
    items: Expected = {}
    for anomaly in found.anomalies:
        if anomaly.topic == f"case-{number}":
            assert anomaly.count == len(anomaly.examples)
            for example in anomaly.examples:
                value = example.get("value")
                place = (example.get("offset"), None if value is None else value - number * _VALUES_A_CASE)
                items.setdefault(anomaly.kind, []).append(place)
    return items
