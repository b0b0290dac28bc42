"""Summarizes offsets in blocks of 64, so that most rows need no second look.

One pass over sends and polls makes the summaries. A block has one row for each source: the acks, or
one consumer's session. The row says how many rows the source has, which of the 64 offsets they are
at (`mask`, a bit each), and the rows' hashes taken together. Sources with equal summaries hold the
same values at the same offsets, so their contents are not compared row by row.

The hashes: `xor` and `sum` of one 64-bit hash of (offset, value). `sum` takes the upper 40 bits,
which cannot overflow below 2^23 rows; beyond that it is null, which equals nothing. Two different
sets of rows look the same with a chance below 2^-64. Where a source has a row twice, it cancels out
of `xor`, and only `sum` (2^-40) distinguishes such blocks. `compare_blocks` does not depend on it,
because a block with two rows at one offset never agrees; replica_divergence does.

Leader epochs are not hashed, because acks have none and read_committed consumers get fewer rows.
The polls of a block have the same epochs if they all have one and the same epoch, as in almost
every block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from analysis.reconcile.checks import flaw_number
from analysis.reconcile.deletions import Deletion, surely_stood, was_deleted
from analysis.reconcile.facts import Facts, runs_where
from analysis.reconcile.parts import union
from analysis.reconcile.tables import RecordTables

BITS = 6
BLOCK = ["run", "topic", "partition", "block"]
PARTITION = ["run", "topic", "partition"]

_NO_EPOCH = -(2**31)
_SUMMARY = "struct<rows:bigint,mask:bigint,xor:bigint,sum:bigint>"


def block_of(number: str) -> Column:
    """Return the block of an offset or a value."""
    return F.shiftright(number, BITS)


def bit_of(number: str) -> Column:
    """Return the bit of an offset or a value in the mask of its block."""
    place = F.col(number).bitwiseAND(F.lit(2**BITS - 1)).cast("int")
    return F.call_function("shiftleft", F.lit(1).cast("bigint"), place)


def is_transactional() -> Column:
    """Return whether a row of sends belongs to a transaction."""
    return F.col("txn").isNotNull() | F.col("txn_outcome").isNotNull()


def can_be_hidden() -> Column:
    """Return whether a row of sends is of a transaction not known to be committed."""
    return is_transactional() & ~F.coalesce(F.col("txn_outcome") == "committed", F.lit(False))


def sum_of(hashed: Column) -> Column:
    """Return the sum of the hashes' upper 40 bits.

    Null for so many rows that it overflows.
    """
    return F.try_sum(F.shiftright(hashed, 24))


def _summary(where: Column | None = None) -> Column:
    def of(column: Column) -> Column:
        return column if where is None else F.when(where, column)

    hashed = F.xxhash64("offset", "value")
    return F.struct(
        F.count(of(F.lit(1))).alias("rows"),
        F.coalesce(F.bit_or(of(bit_of("offset"))), F.lit(0)).cast("bigint").alias("mask"),
        F.coalesce(F.bit_xor(of(hashed)), F.lit(0)).cast("bigint").alias("xor"),
        sum_of(of(hashed)).alias("sum"),
    )


def send_blocks(tables: RecordTables, deletions: Mapping[int, Sequence[Deletion]]) -> DataFrame | None:
    """Return the sends by status and block (null where no offset is known).

    `all` is the summary of the rows, `shown` of those that a read_committed consumer may get.
    `aborted` and `in_txn` count rows of transactions, `answered` those that a broker answers.
    `first` is the lowest offset that no step deleted on purpose, `unsure` counts those deleted that may
    not have stood then (the module deletions); `flaw`: see the module checks.
    """
    if tables.sends is None:
        return None
    deleted = was_deleted(deletions)
    placed = F.when((F.col("status") == "acked") & F.col("offset").isNotNull(), block_of("offset"))
    return tables.sends.groupBy(*PARTITION, "status", placed.alias("block")).agg(
        _summary().alias("all"),
        _summary(~can_be_hidden()).alias("shown"),
        F.count("offset").alias("placed"),
        F.count(F.when(F.col("txn_outcome") == "aborted", 1)).alias("aborted"),
        F.count(F.when(is_transactional(), 1)).alias("in_txn"),
        F.count(F.when(F.col("acks") != 0, 1)).alias("answered"),
        F.min(F.when(~deleted, F.col("offset"))).alias("first"),
        F.count(F.when(deleted & ~surely_stood(deletions), 1)).alias("unsure"),
        flaw_number(tables, "sends"),
    )


def poll_blocks(tables: RecordTables) -> DataFrame | None:
    """Return the polls by consumer, session, isolation and block.

    The counts are those of `PollFacts`.
    """
    if tables.polls is None:
        return None
    previous = F.col("prev_offset")
    epoch = F.coalesce("leader_epoch", F.lit(_NO_EPOCH))
    committed = (F.col("isolation") == "read_committed").alias("read_committed")
    return tables.polls.groupBy(
        *PARTITION, "consumer", "session", "final", committed, block_of("offset").alias("block")
    ).agg(
        _summary().alias("all"),
        F.min("offset").alias("first"),
        F.max("offset").alias("last"),
        F.min(epoch).alias("oldest"),
        F.max(epoch).alias("newest"),
        F.count(F.when(F.col("value").isNull(), 1)).alias("damaged"),
        F.count(F.when(F.col("offset") <= previous, 1)).alias("back"),
        F.count(F.when(F.col("offset") - 1 > previous, 1)).alias("jumped"),
        F.count(previous).alias("chained"),
        flaw_number(tables, "polls"),
    )


def compare_blocks(
    sends: DataFrame | None, polls: DataFrame | None, partitions: DataFrame, runs: Sequence[Facts]
) -> DataFrame | None:
    """Return one row a block: what its sources hold, and whether they agree.

    - `agree`: acks, consumers and the final read hold the same rows, an offset each, as far as each
      may see them, and polls have one leader epoch.
    - `final_mask`: the offsets of the final read. `shown_mask`: those of acks that a read_committed
      consumer may get. `acks_final`: acks and the final read are the same.
    - `ordinary_mask`: the offsets that any ordinary consumer returned. `passed_over`: any of them
      may have passed over an offset of the final read.

    `partitions` is `facts.partition_facts`. None: there are neither sends nor polls.
    """
    parts = []
    if sends is not None:
        placed = sends.where("block IS NOT NULL")
        parts.append(placed.select(*BLOCK, *_columns(acks=F.col("all"), shown=F.col("shown"))))
    if polls is not None:
        by = {
            "final": F.when(F.col("final"), F.col("all")),
            "open": F.when(~F.col("read_committed"), F.col("all")),
            "committed": F.when(F.col("read_committed"), F.col("all")),
            "ordinary": F.when(~F.col("final"), F.col("all.mask")),
            "oldest": F.col("oldest"),
            "newest": F.col("newest"),
        }
        parts.append(polls.select(*BLOCK, *_columns(**by)))
    if not parts:
        return None
    blocks = union(parts)
    ends = partitions.select(*PARTITION, "final_read", "log_start", "read_last")
    grouped = blocks.groupBy(*BLOCK).agg(
        *(F.max(name).alias(name) for name in ("acks", "shown", "final")),
        *(f(name).alias(f"{name}_{f.__name__}") for name in ("open", "committed") for f in (F.min, F.max)),
        *(F.bool_and(_has_one_row_an_offset(name)).alias(f"{name}_once") for name in ("acks", "open", "committed")),
        F.count("final").alias("finals"),
        F.bit_or("final.mask").alias("final_mask"),
        F.bit_or("ordinary").alias("ordinary_mask"),
        F.coalesce(F.min("oldest") == F.max("newest"), F.lit(True)).alias("one_epoch"),
    )
    joined = grouped.join(F.broadcast(ends), PARTITION, "left")
    return joined.select(
        *BLOCK,
        _do_sources_agree(runs).alias("agree"),
        "final_mask",
        F.col("shown.mask").alias("shown_mask"),
        _is_acks_final().alias("acks_final"),
        "ordinary_mask",
        _has_passed_over().alias("passed_over"),
    )


def _columns(**given: Column) -> list[Column]:
    kinds = dict.fromkeys(("acks", "shown", "final", "open", "committed"), _SUMMARY)
    kinds |= {"ordinary": "bigint", "oldest": "int", "newest": "int"}
    return [given.get(name, F.lit(None)).cast(kind).alias(name) for name, kind in kinds.items()]


def _has_one_row_an_offset(name: str) -> Column:
    """Return whether a source has one row an offset."""
    return F.coalesce(F.col(f"{name}.rows") == F.bit_count(f"{name}.mask").cast("bigint"), F.lit(True))


def _is_acks_final() -> Column:
    """Return `acks_final` of `compare_blocks`.

    A null sum equals nothing.
    """
    same = (F.col("acks") == F.col("final")) & F.col("acks.sum").isNotNull()
    return F.coalesce(same, F.lit(False)) & F.col("acks_once") & (F.col("finals") == 1)


def _has_passed_over() -> Column:
    """Return `passed_over` of `compare_blocks`: an offset that none of the ordinary consumers returned.

    One of them returned an offset of this block or of a later one.
    """
    returned = F.coalesce("ordinary_mask", F.lit(0))
    left = F.col("final_mask").bitwiseAND(F.bitwise_not(returned)) != 0
    return F.coalesce(left & (F.col("block") <= block_of("read_last")), F.lit(False))


def _do_sources_agree(runs: Sequence[Facts]) -> Column:
    """Return `agree` of `compare_blocks`.

    Without a final read of the block there is nothing to agree with, except below the log start. A
    block without acks agrees only if no log start moved: its values may have been acked at offsets
    removed since.
    """
    once = F.col("one_epoch") & F.col("acks_once") & F.col("open_once") & F.col("committed_once")
    alike = reduce(
        Column.__and__,
        [
            F.coalesce(F.col(f"{name}_min") == F.col(f"{name}_max"), F.lit(True))
            & F.coalesce(F.col(acked) == F.col(f"{name}_min"), F.lit(True))
            for name, acked in (("open", "acks"), ("committed", "shown"))
        ],
    )
    counted = reduce(
        Column.__and__,
        [F.col(name).isNull() | F.col(f"{name}.sum").isNotNull() for name in ("acks", "open_min", "committed_min")],
    )
    unmoved = runs_where(runs, lambda facts: all(ends.log_start == 0 for ends in facts.final_offsets.values()))
    unacked = unmoved & F.coalesce(F.col("open_min") == F.col("committed_min"), F.lit(True))
    read = (F.col("finals") == 1) & F.when(F.col("acks").isNull(), unacked).otherwise(F.lit(True))
    removed = (F.col("finals") == 0) & F.col("acks").isNotNull() & (F.col("block") < block_of("log_start"))
    return F.coalesce(F.col("final_read") & once & alike & counted & (read | removed), F.lit(False))


def readable_blocks(blocks: DataFrame, tables: RecordTables, runs: Sequence[Facts]) -> DataFrame:
    """Return the offsets of the final read by block.

    `open_mask` has all of them, `shown_mask` those that read_committed lets through. `agreed_mask`
    is `open_mask` where the block agrees, else null; `returned` has the offsets that any ordinary
    consumer returned. Where acks and final read are the same, the acks say which offsets hold
    values of transactions that may be hidden. Elsewhere each value of the final read is looked up
    in sends.
    """
    read = blocks.where("final_mask IS NOT NULL")
    told = runs_where(runs, lambda facts: facts.final_read_committed or not facts.has_transactions)
    unclear = runs_where(runs, lambda facts: not facts.final_read_committed and facts.has_transactions)
    plain = read.select(
        *BLOCK,
        F.col("final_mask").alias("open_mask"),
        F.when(told, F.col("final_mask"))
        .when(F.col("acks_final"), F.col("shown_mask").bitwiseAND(F.col("final_mask")))
        .alias("shown_mask"),
        F.when(F.col("agree"), F.col("final_mask")).alias("agreed_mask"),
        F.coalesce("ordinary_mask", F.lit(0)).alias("returned"),
    )
    if tables.polls is None or not any(f.has_transactions and not f.final_read_committed for f in runs):
        return plain
    looked_up = read.where(unclear & ~F.col("acks_final")).select(*BLOCK)
    rows = tables.polls.where("final AND value IS NOT NULL").withColumn("block", block_of("offset"))
    rows = rows.join(looked_up, BLOCK, "left_semi").select(*BLOCK, "offset", "value")
    shown = F.lit(False)
    if tables.sends is not None:
        of_value = tables.sends.groupBy("run", "value").agg(F.bool_or(can_be_hidden()).alias("hidden"))
        rows = rows.join(of_value, ["run", "value"], "left")
        shown = ~F.coalesce("hidden", F.lit(True))
    seen = rows.groupBy(*BLOCK).agg(F.bit_or(F.when(shown, bit_of("offset"))).alias("looked_up"))
    return plain.join(seen, BLOCK, "left").select(
        *BLOCK,
        "open_mask",
        F.coalesce("shown_mask", "looked_up", F.lit(0)).alias("shown_mask"),
        "agreed_mask",
        "returned",
    )
