"""lost: an acked value that is not in the final log of its partition.

The rule: a broker said yes and named an offset, and at the end of the run the value is gone. One item a value.

The data: sends with status acked and an offset; the final read, which covers a partition from its log start to
its HW; the last leader's own log (replicas, partitions); for *committed*, HW observations of every source.

Why it is sound: the final read came after everything was healed, so what it lacks no consumer can get any more.
Not lost, therefore: below the final log start (retention may have removed it); at another offset of the partition (a
duplicate); in the last leader's own log (the read missed it, the log did not); damaged, when a consumer got a
null value at its offset; a value of a transaction that is not known to be committed (it may rightly be hidden).

*Committed*: acked with acks=all, or returned to an ordinary consumer, or passed by the HW. An observation is of
the HW passing *this* record only if it was made after the record was sent, and under a leader epoch in which
nothing else may stand at that offset: after an acks=1 record is cut off, the next leader's HW passes its offset
too, on another record. So each other record known at the offset bounds the epochs that count. One that stands in
the final log: those below its own epoch, even if that is older than the acknowledgement, for a deposed leader may
ack elections later what it alone holds. One that does not stand: those below its own epoch if that is no older than
the acknowledgement's era, else it may have been cut off before. If its epoch is not known: none if it stands, else
those up to the era. In a run with transactions a control record, which no consumer returns, or a hidden one may stand
below the final HW where nothing is known to: its epoch is not known either, so no observation counts. So a record that
an unclean election cut off, in favour of an older one that had stood there before, counts as committed only if acks=all
or a consumer says so.

When it cannot tell: without sends, polls or a final read, or when the run is not complete; for a partition that
the final read does not name; for acked records without an offset, or with one below the final log start: what stood
there is gone from every log, whatever moved the start, and nothing tells whether it was lost before; where a replica's
log is damaged below its HW (the module damaged_logs). No row of the final read is a read of nothing only where the
final offsets say that the log is empty.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from analysis.reconcile.crowds import LISTED
from analysis.reconcile.facts import Facts, runs_where
from analysis.reconcile.items import item

KIND = "lost"


def _why_nothing(facts: Facts) -> str | None:
    """Why not even a part could be judged."""
    lacking = facts.without("sends") or ("polls is missing" if "polls" in facts.missing else None)
    if lacking is not None:
        return lacking
    if facts.final_consumer is None:
        return "there was no final read"
    if not facts.complete:
        return "the run is not complete"
    return None


def why_unknown(facts: Facts) -> str | None:
    """Why nothing, or not everything, could be judged."""
    why = _why_nothing(facts)
    if why is not None:
        return why
    if facts.compacted:
        return f"topic {facts.compacted[0].topic} is compacted: what it lacks may be compacted away"
    return facts.without_final_read() or facts.without_offsets() or facts.without_log() or facts.with_damage()


def is_lost(runs: Sequence[Facts]) -> Column:
    """Whether a row of the history is an item; null is no."""
    return (
        F.col("acked")
        & F.col("final_read")
        & (F.col("offset") >= F.col("log_start"))
        & ~F.col("stands_in_partition")
        & ~F.col("damaged")
        & ~F.col("compacted")
        & runs_where(runs, lambda facts: _why_nothing(facts) is None)
        & (~F.col("in_transaction") | F.coalesce("in_committed", F.lit(False)))
    )


def items(runs: Sequence[Facts]) -> Column:
    """The item of a row of the history; null when it is none."""
    read = F.col("read_in_partition")
    passed = _passed_by_hw() & ~_stands_unseen(runs)
    committed = (F.col("acks") == -1) | read | passed
    values = F.transform("others", lambda one: one["value"])
    with_nameless = F.array_append(values, F.lit(None).cast("bigint"))
    others = F.slice(F.when(F.col("nameless"), with_nameless).otherwise(values), 1, LISTED)
    return F.when(
        is_lost(runs),
        item(
            KIND,
            offset=F.col("offset"),
            value=F.col("value"),
            details={
                "acks": F.col("acks"),
                "committed": committed,
                "acked_after_epoch": F.col("era"),
                "read_by_consumer": read,
                "passed_by_hw": passed,
                "producer": F.col("producer"),
                "sequence": F.col("sequence"),
                "sent_ns": F.col("sent_ns"),
                "done_ns": F.col("done_ns"),
                "others_at_offset": F.when(F.size(others) > 0, others),
                "stood": F.col("others_in_all"),
            },
            acks=F.col("acks"),
            committed=committed,
            leader_epoch=F.col("era"),
            at_ns=F.coalesce("done_ns", "sent_ns"),
        ),
    )


def _passed_by_hw() -> Column:
    near = F.filter("near_epochs", lambda other: other["value"] != F.col("value"))
    gone_again = F.array_min(F.transform(near, lambda other: _replaced_in(other["epoch"])))
    # What is lost does not stand, so that what stands there is another record.
    replaced_in = F.least(F.col("standing_epoch"), gone_again)
    return F.coalesce(
        F.when(replaced_in.isNull(), F.col("hw_seen")).otherwise(F.col("hw_epoch") < replaced_in), F.lit(False)
    )


def _stands_unseen(runs: Sequence[Facts]) -> Column:
    """Whether something may stand at the offset that nobody returned, and no log that is known has."""
    transactions = runs_where(runs, lambda facts: facts.has_transactions)
    below = F.coalesce(F.col("offset") < F.col("final_hw"), F.lit(False))
    return transactions & below & F.col("standing_epoch").isNull()


def _replaced_in(epoch: Column) -> Column:
    """From which leader epoch on a HW may be of another record that was at the offset; null: it does not tell.

    `epoch` is that of a record that does not stand.
    """
    era = F.col("era")
    known = F.when(era.isNull() | (epoch >= era), epoch)
    return F.when(epoch.isNull(), F.when(era.isNull(), 0).otherwise(era + 1)).otherwise(known)
