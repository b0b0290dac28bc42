"""poll-skip: within one session, a consumer jumped over an offset that exists.

The rule: one item a row, however many offsets it jumped over. They must stand in the final log, as
must the row itself (the final read has the same offset, value and leader epoch). The consumer must
be allowed to see them.

The data: polls with a `prev_offset`, of every consumer; the final read. For a read_committed
consumer also sends: a value of a transaction that is not known to be committed may rightly be
hidden from it. In a run with transactions, a value without a row in sends may be hidden as well.

Why it is sound: between two offsets that one session returned one after the other, every record
should have been returned. Only what exists counts: holes of lost records, control records, and
offsets below the log start do not. And only what existed then counts: the row that ended the jump
stands in the final log, and logs that hold the same record hold the same below it (see the module
final_log_rows). A jump over aborted or control records does not count if its end was cut off since,
whatever was put at those offsets later.

When it cannot tell: without polls or a final read, or when no row says what was returned before it;
for a row that the final read does not have, because it was cut off, deleted, or hidden from a
read_committed final read. Where the run is not complete the final read may have stopped anywhere:
what it did not reach is not known. Nor can it where the final log begins below a log start to which a
step deleted records: a jump that begins below it may have passed over what was deleted at that time,
and came back when the brokers crashed.

How: the final read's offsets are counted up block by block, and each end of a jump looks up how
many are below it. A jump over many offsets costs what a jump over one costs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from analysis.judge.rules.anomaly import Anomaly
from analysis.reconcile.final_log_rows import OfFinalRead, mark_final_log_rows, readable_blocks
from analysis.reconcile.undone_deletions import may_have_been_deleted, with_undone_deletions
from analysis.reconcile.work import Work, items_of
from analysis.record.groups import BITS, Bools, Ints, bit_count, bit_of
from analysis.record.record import Record
from analysis.record.scans import Rows
from analysis.rows.facts import Facts
from analysis.rows.question import Place, RunSums
from analysis.spark.columns import BLOCK, PARTITION, block_of
from analysis.spark.parts import in_one_part
from analysis.spark.sql import DataFrame, F, Window

_JUMP = ["offset", "value", "prev_offset", "consumer", "session", "polled_ns"]
_JUMPS_MAX = 5_000_000
"""Above so many jumps all are looked at."""


class Skips(OfFinalRead):
    """Is there a row that jumped over an offset of the final read?"""

    reads: Mapping[str, tuple[str, ...]] = {"polls": ("offset", "prev_offset")}

    def __init__(self, run: Record, folder: Callable[[], Path]) -> None:
        super().__init__(run, folder)
        self._jumps: dict[Place, list[Ints]] = {}
        self._count = 0

    def add(self, rows: Rows) -> None:
        """Keep the jumps: the lowest offset left out, the offset after, and whether the consumer was read_committed."""
        offset, before = rows.numbers("offset"), rows.numbers("prev_offset")
        jumped: Bools = rows.known("prev_offset") & (offset - 1 > before)
        if not jumped.any():
            return
        ends = np.stack([before + 1, offset, rows.where_word("isolation", "read_committed").astype(np.int64)], 1)
        with self.lock:
            for (topic, partition), here in rows.parts("partition"):
                if len(some := ends[here[jumped[here]]]):
                    self._count += len(some)
                    kept = self._jumps.setdefault((topic, partition), [])
                    if self._count <= _JUMPS_MAX:
                        kept.append(some)

    def needs_all_blocks(self, summed: RunSums, place: Place) -> bool:
        """Whether any row jumped."""
        return self._count > _JUMPS_MAX or place in self._jumps

    def is_possible(self, summed: RunSums, place: Place) -> bool:
        """Return whether a jump left out an offset that its consumer may get."""
        if self._count > _JUMPS_MAX:
            return True
        kept, jumps = summed.partitions[place].kept, self._jumps.get(place)
        if jumps is None or not len(kept.block):
            return False
        order = np.argsort(kept.block)
        shown = kept.final if summed.ends[place].all_shown else np.where(kept.acks_final, kept.shown, kept.final)
        ends = np.concatenate(jumps)
        return any(
            bool((_below(kept.block[order], mask, some[:, 1]) > _below(kept.block[order], mask, some[:, 0])).any())
            for committed, mask in ((1, shown[order]), (0, kept.final[order]))
            for some in [ends[ends[:, 2] == committed]]
        )


def _below(block: Ints, mask: Ints, offset: Ints) -> Ints:
    """Return how many offsets of these blocks, which are in order, are below each of some offsets."""
    before = np.concatenate([[0], np.cumsum(bit_count(mask))])
    at = np.searchsorted(block, offset >> BITS)
    there = np.minimum(at, len(block) - 1)
    in_block = np.where(block[there] == offset >> BITS, bit_count(mask[there] & (bit_of(offset) - 1)), 0)
    found: Ints = before[at] + in_block
    return found


def why_unknown(facts: Facts) -> str | None:
    """Return why nothing, or not everything, could be judged."""
    if (lacking := facts.missing_or_empty("polls")) is not None:
        return lacking
    if facts.final_consumer is None:
        return "there was no final read"
    if not any(polls.chained for polls in facts.polls) and any(polls.rows > 1 for polls in facts.polls):
        return "what each poll returned before is not known (prev_offset)"
    if not facts.complete:
        return "the run is not complete: what the final read did not reach is not known"
    return facts.without_final_read() or with_undone_deletions(facts)


def _items(work: Work) -> DataFrame | None:
    """Return one row for each item; None if there are none."""
    readable = work.shared(readable_blocks)
    if work.tables.polls is None or readable is None:
        return None
    committed = F.col("isolation") == "read_committed"
    jumps = mark_final_log_rows(work.tables.polls).where("offset - 1 > prev_offset")
    jumps = jumps.where(~may_have_been_deleted(work.runs, F.col("prev_offset") + 1))
    jumps = jumps.select(
        *PARTITION, *_JUMP, committed.alias("committed"), "in_final_log", F.monotonically_increasing_id().alias("jump")
    )
    both = F.explode(F.array(F.col("prev_offset") + 1, F.col("offset"))).alias("end")
    ends = jumps.select("*", both).withColumn("block", block_of("end"))
    counted = in_one_part(ends.unionByName(readable, allowMissingColumns=True))
    before = Window.partitionBy(*PARTITION).orderBy("block").rangeBetween(Window.unboundedPreceding, -1)
    here = Window.partitionBy(*BLOCK)
    place = F.col("end").bitwiseAND(F.lit(2**BITS - 1)).cast("int")
    lower = F.bitwise_not(F.call_function("shiftleft", F.lit(-1).cast("bigint"), place))
    below = {
        name: F.coalesce(F.sum(F.bit_count(mask).cast("bigint")).over(before), F.lit(0))
        + F.bit_count(F.coalesce(F.max(mask).over(here), F.lit(0)).bitwiseAND(lower))
        for name, mask in (("open", "open_mask"), ("shown", "shown_mask"))
    }
    there = F.call_function("shiftright", F.max("agreed_mask").over(here), place).bitwiseAND(F.lit(1)) == 1
    in_final_log = F.col("in_final_log") | (F.coalesce(there, F.lit(False)) & (F.col("end") == F.col("offset")))
    seen = counted.withColumns(below | {"in_final_log": in_final_log}).where("jump IS NOT NULL")
    found = seen.groupBy(*PARTITION, *_JUMP, "committed", "jump").agg(
        F.bool_or("in_final_log").alias("in_final_log"), *((F.max(name) - F.min(name)).alias(name) for name in below)
    )
    skipped = F.when(F.col("committed"), F.col("shown")).otherwise(F.col("open"))
    found = found.withColumn("skipped", skipped).where("skipped > 0 AND in_final_log")
    details = ("consumer", "session", "prev_offset", "polled_ns", "skipped")
    return items_of(found, RULE.name, details, value="value")


RULE = Anomaly(
    means="row that jumped over an offset of the final log, within its session",
    one="jump of a consumer over records",
    many="jumps of consumers over records",
    why_unknown=why_unknown,
    items=_items,
    questions=(Skips,),
    example="""
        Consumer 1 got offset 2 right after offset 0. The final log has a record at offset 1.
        polls: 0=1; offset=2 value=3 prev_offset=0; final 0=1 1=2 2=3
        gives: offset=2 value=3
    """,
)
