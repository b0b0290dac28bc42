"""input-skipped: a group has committed an offset beyond an input that has no committed copy.

The rule: one item a record of the final log that is below an offset which a coordinator served for a copiers' group,
and of which no copy is visible, nor may be (the module copies).

The data: the final read, copies, the sends of the copiers and of their inputs, polls, and the offsets that coordinators
served (commits).

Why it is sound: a copier of a group that has committed offset N has read all inputs below N, or another copier of the
group has. All of them were committed before the offset, or with it. The final read, which comes after every transaction
has ended, gets every record that is not lost. An input whose own transaction is not known to be committed may rightly
be skipped.

When it cannot tell: as the module copies says. Also where records of either topic may be deleted or compacted, and
where no coordinator was asked for the offset of a group that copied.
"""

from __future__ import annotations

import pyarrow as pa

from analysis.judge.rules.anomaly import Anomaly
from analysis.judge.rules.groups.copies_asked import CopiesAsked
from analysis.reconcile import copies
from analysis.reconcile.work import Work, items_of
from analysis.rows.facts import CopyFacts, Facts
from analysis.spark.sql import DataFrame, F
from ebbtide.coverage_fact import Fact
from ebbtide.record.tables import schema_of_rows

_PLACE = copies.INPUT[:-1]
_PLACES = schema_of_rows("run int32 group string topic string partition int32")


def why_unknown(facts: Facts) -> str | None:
    """Return why nothing, or not everything, could be judged."""
    if why := copies.why_copies_unknown(facts):
        return why
    if not facts.copies:
        return None
    return next((why for one in facts.copies if (why := _why_not_judged(facts, one)) is not None), None)


def _why_not_judged(facts: Facts, one: CopyFacts) -> str | None:
    """Return why inputs of one partition cannot be judged."""
    at = f"{one.topic}-{one.partition}"
    if at not in facts.final_offsets or at in facts.unread:
        return f"the final read does not cover {at}"
    moved = {*facts.compacted} | {each.topic for each in facts.deletions}
    for topic in (one.topic, one.copied_to):
        begun = [name for name, ends in facts.final_offsets.items() if _is_of(name, topic) and ends.log_start > 0]
        if topic in moved or begun:
            return f"records of {topic} may be deleted, or compacted, without a loss"
    if unread := sorted(name for name in facts.unread if _is_of(name, one.copied_to)):
        return f"the final read does not cover {unread[0]}"
    asked = {(each.group, each.topic, each.partition) for each in facts.commits if each.status == "served"}
    if (one.group, one.topic, one.partition) not in asked:
        return f"no coordinator was asked what the group {one.group} has committed for {at}"
    return None


def _is_of(name: str, topic: str) -> bool:
    return name.rpartition("-")[0] == topic


def _items(work: Work) -> DataFrame | None:
    """Return one row for each item; None if nothing can be judged."""
    sent = copies.copies_of(work)
    judged = [
        {"run": facts.run, "group": group, "topic": topic, "partition": partition}
        for facts in work.runs
        if facts.complete and facts.final_consumer is not None
        for group, topic, partition in sorted(
            {(one.group, one.topic, one.partition) for one in facts.copies}
            - {(one.group, one.topic, one.partition) for one in facts.copies if _why_not_judged(facts, one)}
        )
    ]
    if (
        sent is None
        or work.tables.commits is None
        or work.tables.polls is None
        or work.tables.sends is None
        or not judged
    ):
        return None
    places = F.broadcast(work.spark.createDataFrame(pa.Table.from_pylist(judged, schema=_PLACES)))
    committed = (
        work.tables.commits.where("status = 'served' AND offset IS NOT NULL")
        .join(places, _PLACE, "left_semi")
        .groupBy(*_PLACE)
        .agg(F.max("offset").alias("committed"))
    )
    inputs = (
        work.tables.polls.where("final AND counts AND value IS NOT NULL")
        .join(F.broadcast(committed), ["run", "topic", "partition"])
        .where("offset < committed")
        .select(*copies.INPUT, "value", "committed")
    )
    hidden = work.tables.sends.where("(txn IS NOT NULL OR txn_outcome IS NOT NULL) AND NOT txn_outcome <=> 'committed'")
    copied = sent.where("may_be_visible").select(*copies.INPUT)
    skipped = (
        inputs.join(hidden.select("run", "value"), ["run", "value"], "left_anti")
        .join(copied, copies.INPUT, "left_anti")
        .groupBy(*copies.INPUT)
        .agg(F.min("value").alias("value"), F.min("committed").alias("committed"))
    )
    return items_of(skipped, RULE.name, ("group", "committed"), value="value", group="group")


RULE = Anomaly(
    means="record below the committed offset of a copiers' group, without a committed copy",
    one="skipped input",
    many="skipped inputs",
    why_unknown=why_unknown,
    items=_items,
    groups=copies.GROUPS,
    questions=(CopiesAsked,),
    despite="a copier passed it by",
    headline=("input is skipped by a copier", "inputs are skipped by a copier"),
    fact=Fact(
        "clients",
        "inputs-skipped",
        "records below the committed offset of a copiers' group of which it committed no copy",
        "KIP-98",
        ("copies-sent",),
    ),
    example="""
        Group g has committed offset 2. The input at offset 0 has no copy.
        partitions: leader=1; topic=__consumer_offsets at=1 partition_epoch=0
        watermarks: topic=__consumer_offsets high_watermark=9 at=2; topic=__consumer_offsets high_watermark=9 at=3
        sends: offset=0 value=1 producer=2; offset=1 value=2 producer=2;
          topic=copies offset=0 value=12 txn=1 txn_outcome=committed
        copies: 1=12
        commits: status=acked commit=1 offset=2; status=served broker=1 commit=1 offset=2
        polls: final 0=1 1=2; final topic=copies 0=12; topic=copies isolation=read_committed 0=12
        gives: offset=0 value=1
    """,
)
