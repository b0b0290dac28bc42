"""copied-twice: an input has two committed copies or more.

The rule: one item an input of which two copies or more of one group's copiers are visible (the module copies).

The data: copies, the sends of the copiers, and polls.

Why it is sound: each copy has a value of its own, and its row names its input. So two visible values are two records of
committed transactions, and both are copies of the same input.

When it cannot tell: as the module copies says. An item is certain all the same.
"""

from __future__ import annotations

from analysis.judge.rules.anomaly import Anomaly
from analysis.judge.rules.groups.copies_asked import CopiesAsked
from analysis.reconcile import copies
from analysis.reconcile.work import Work, items_of
from analysis.spark.sql import DataFrame, F
from ebbtide.coverage_fact import Fact

_SHOWN_MAX = 10


def _items(work: Work) -> DataFrame | None:
    """Return one row for each item; None if there are no copies."""
    sent = copies.copies_of(work)
    if sent is None:
        return None
    twice = (
        sent.where("visible")
        .groupBy(*copies.INPUT)
        .agg(
            F.count_distinct("value").alias("copies"),
            F.array_sort(F.collect_set("value")).alias("values"),
            F.min("copied_to").alias("copied_to"),
        )
        .where("copies > 1")
    )
    shown = F.slice("values", 1, _SHOWN_MAX)
    found = twice.withColumns({"value": F.element_at("values", 1), "values": shown})
    return items_of(found, RULE.name, ("group", "copied_to", "copies", "values"), value="value", group="group")


RULE = Anomaly(
    means="record of which the copiers of one group committed two copies or more",
    one="input that was copied again",
    many="inputs that were copied again",
    why_unknown=copies.why_copies_unknown,
    items=_items,
    groups=copies.GROUPS,
    questions=(CopiesAsked,),
    headline=("input is copied twice", "inputs are copied twice"),
    fact=Fact(
        "clients",
        "inputs-copied-twice",
        "records of which a group's copiers committed two copies or more",
        "KIP-98",
        ("copies-sent",),
    ),
    example="""
        Two committed records are copies of the input at offset 0.
        sends: offset=0 value=1 producer=2; topic=copies offset=0 value=11 txn=1 txn_outcome=committed;
          topic=copies offset=1 value=12 txn=2 txn_outcome=committed
        copies: 0=11 0=12
        polls: final 0=1; final topic=copies 0=11 1=12; topic=copies isolation=read_committed 0=11 1=12
        gives: offset=0 copies=2
    """,
)
