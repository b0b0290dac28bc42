"""lost: an acked value that is not in the final log of its partition.

The rule: a broker said yes and named an offset, and at the end of the run the value is gone. One item a value.

The data: sends with status acked and an offset; the final read, which covers a partition from its log start to
its HW; the last leader's own log (replicas, partitions); for *committed*, HW observations of every source.

Why it is sound: the final read came after everything was healed, so what it lacks no consumer can get any more.
Not lost, therefore: below the final log start (retention removed it); at another offset of the partition (a
duplicate); in the last leader's own log (the read missed it, the log did not); damaged, when a consumer got a
null value at its offset; a value of a transaction that is not known to be committed (it may rightly be hidden).

*Committed*: acked with acks=all, or returned to an ordinary consumer, or passed by the HW. An observation is of
the HW passing *this* record only if it was made after the record was sent, and under a leader epoch in which
nothing else may stand at that offset: after an acks=1 record is cut off, the next leader's HW passes its offset
too, on another record. So each other record known at the offset bounds the epochs that count. One that stands in
the final log: those below its own epoch, even if that is older than the acknowledgement, for a deposed leader may
ack elections later what it alone holds. One that does not stand: those below its own epoch if that is no older than
the acknowledgement's era, else it may have been cut off before. If its epoch is not known: none if it stands, else
those up to the era. So a record that an unclean election cut off, in favour of an older one that had stood there
before, counts as committed only if acks=all or a consumer says so.

When it cannot tell: without sends, polls or a final read, or when the run is not complete; for a partition that
the final read does not name; for acked records without an offset. No row of the final read is a read of nothing only
where the final offsets say that the log is empty.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

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
    return facts.without_final_read() or facts.without_offsets()


def items(runs: Sequence[Facts]) -> Column:
    """The item of a row of the history; null when it is none."""
    stands = F.exists("places", lambda place: place["stands"] & _here(place))
    read = F.exists("places", lambda place: place["read"] & _here(place))
    is_lost = (
        F.col("acked")
        & F.col("final_read")
        & (F.col("offset") >= F.col("log_start"))
        & ~stands
        & ~F.col("damaged")
        & ~F.col("compacted")
        & runs_where(runs, lambda facts: _why_nothing(facts) is None)
        & (~F.col("in_transaction") | F.coalesce("in_committed", F.lit(False)))
    )
    passed = _passed_by_hw()
    committed = (F.col("acks") == -1) | read | passed
    return F.when(
        is_lost,
        item(
            KIND,
            offset=F.col("offset"),
            value=F.col("value"),
            details={
                "acks": F.col("acks"),
                "committed": committed,
                "acked_after_epoch": _era(),
                "read_by_consumer": read,
                "passed_by_hw": passed,
                "producer": F.col("producer"),
                "sequence": F.col("sequence"),
                "sent_ns": F.col("sent_ns"),
                "done_ns": F.col("done_ns"),
                "others_at_offset": F.when(F.size("others") > 0, F.transform("others", lambda one: one["value"])),
            },
            acks=F.col("acks"),
            committed=committed,
            leader_epoch=_era(),
            at_ns=_acked_ns(),
        ),
    )


def _here(place: Column) -> Column:
    """Whether a place is in the row's own partition."""
    return (place["topic"] == F.col("topic")) & (place["partition"] == F.col("partition"))


def _acked_ns() -> Column:
    return F.coalesce("done_ns", "sent_ns")


def _era() -> Column:
    """The leader epoch in force when the acknowledgement came; null when the metadata log does not say."""
    begun = F.filter("elections", lambda election: election["since_ns"] <= _acked_ns())
    return F.array_max(F.transform(begun, lambda election: election["leader_epoch"]))


def _replaced_in(other: Column) -> Column:
    """From which leader epoch on a HW may be of another record at the offset; null: this one does not tell."""
    stands = other["final_ns"].isNotNull() | F.coalesce(other["in_leader"], F.lit(False))
    epoch = other["epoch"]
    unknown = F.when(stands | _era().isNull(), 0).otherwise(_era() + 1)
    return F.when(epoch.isNull(), unknown).when(stands | _era().isNull() | (epoch >= _era()), epoch)


def _passed_by_hw() -> Column:
    replaced_in = F.array_min(F.transform("others", _replaced_in))
    return F.coalesce(
        F.exists(
            "served",
            lambda one: (
                (one["high_watermark"] > F.col("offset"))
                & (one["at_ns"] >= F.col("sent_ns"))
                & (replaced_in.isNull() | F.coalesce(one["leader_epoch"] < replaced_in, F.lit(False)))
            ),
        ),
        F.lit(False),
    )
