"""lost: an acked value that is not in the final log of its partition.

The rule: a broker acked the value and named an offset, and at the end of the run the value is
missing. One item a value.

The data: sends with status acked and an offset; the final read, which covers a partition from its
log start to its HW; the last leader's own log (replicas, partitions); for *committed*, HW
observations of every source.

Why it is sound: the final read came after everything was healed, so no consumer can get what it
lacks. Not lost, therefore, is a value
- below the final log start: retention may have removed it,
- deleted on purpose by a step (the module deletions), even if the log start went back since,
- at another offset of the partition: it is a duplicate,
- in the last leader's own log: the read missed it, the log did not,
- that is damaged: a consumer got a null value at its offset,
- of a transaction that is not known to be committed: it may rightly be hidden.

*Committed*: acked with acks=all, or returned to an ordinary consumer, or passed by the HW. A HW
observation shows that the HW passed *this* record only if it was made after the record was sent,
and under a leader epoch in which nothing else may stand at that offset. After an acks=1 record is
cut off, the next leader's HW passes its offset too, on another record. So each other record known
at the offset bounds the epochs that count:

    the other record is      its epoch is                     epochs that count
    in the final log         known                            those below its epoch
    in the final log         not known                        none
    not in the final log     not older than the ack's era     those below its epoch
    not in the final log     older                            all: it bounds nothing
    not in the final log     not known                        those up to the ack's era

An older record in the final log bounds the epochs, because a deposed leader may ack, elections
later, a record that only it has. An older record that is not in the final log may have been
truncated before the ack.

In a run with transactions a control record, which no consumer returns, or a hidden record may stand
below the final HW where no record is known. Its epoch is not known either, so no observation
counts. So take a record that an unclean election cut off in favour of an older record that had been
there before: it counts as committed only if acks=all or a consumer says so.

When it cannot tell:
- without sends, polls or a final read, or when the run is not complete;
- for a partition that the final read does not name;
- for acked records without an offset, or with an offset below the final log start: those records
  are in no log any more, whatever moved the start, and nothing says whether they were lost before
  (of records that a step deleted on purpose, the module deletions may know it);
- where a replica's log is damaged below its HW (the module damaged_logs).

A final read without rows is a read of nothing only where the final offsets say that the log is
empty.
"""

from __future__ import annotations

from collections.abc import Sequence

from analysis.judge.rules.anomaly import Anomaly
from analysis.judge.rules.losses.acked_rows import is_lost, why_no_loss_is_judged
from analysis.reconcile.crowds import LISTED
from analysis.reconcile.model import GroupsOfKind, LostRange
from analysis.reconcile.work import item
from analysis.rows.facts import Facts
from analysis.rows.values import OF_VALUES
from analysis.spark.columns import runs_where
from analysis.spark.sql import Column, F


def why_unknown(facts: Facts) -> str | None:
    """Return why nothing, or not everything, could be judged."""
    why = why_no_loss_is_judged(facts)
    if why is not None:
        return why
    if facts.compacted:
        return f"topic {facts.compacted[0]} is compacted: missing records may be compacted away"
    return (
        facts.without_final_read()
        or facts.without_offsets()
        or facts.with_deletions()
        or facts.without_log()
        or facts.with_damage()
    )


def _row(runs: Sequence[Facts]) -> Column:
    """Return the item of a row of the history, or null."""
    read = F.col("read_in_partition")
    passed = _is_passed_by_hw() & ~_can_hold_unread_record(runs)
    committed = (F.col("acks") == -1) | read | passed
    values = F.transform("others", lambda one: one["value"])
    with_nameless = F.array_append(values, F.lit(None).cast("bigint"))
    others = F.slice(F.when(F.col("nameless"), with_nameless).otherwise(values), 1, LISTED)
    return F.when(
        is_lost(runs),
        item(
            RULE.name,
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


def _is_passed_by_hw() -> Column:
    near = F.filter("near_epochs", lambda other: other["value"] != F.col("value"))
    gone_again = F.array_min(F.transform(near, lambda other: _replaced_from_epoch(other["epoch"])))
    # A lost record does not stand, so any record that stands there is another one.
    replaced_in = F.least(F.col("final_log_epoch"), gone_again)
    return F.coalesce(
        F.when(replaced_in.isNull(), F.col("hw_seen")).otherwise(F.col("hw_epoch") < replaced_in), F.lit(False)
    )


def _can_hold_unread_record(runs: Sequence[Facts]) -> Column:
    """Return whether an unknown record may stand at the offset.

    Nobody returned it, and no log that is known has it.
    """
    transactions = runs_where(runs, lambda facts: facts.has_transactions)
    below = F.coalesce(F.col("offset") < F.col("final_hw"), F.lit(False))
    return transactions & below & F.col("final_log_epoch").isNull()


def _replaced_from_epoch(epoch: Column) -> Column:
    """Return the leader epoch from which a HW may be of another record at the offset.

    Null: the other record does not bound it. `epoch` is that of a record that does not stand.
    """
    era = F.col("era")
    known = F.when(era.isNull() | (epoch >= era), epoch)
    return F.when(epoch.isNull(), F.when(era.isNull(), 0).otherwise(era + 1)).otherwise(known)


RULE = Anomaly(
    means="acked value that is in no final log",
    one="lost record",
    many="lost records",
    why_unknown=why_unknown,
    row=_row,
    questions=OF_VALUES,
    groups=GroupsOfKind(
        into=LostRange,
        # What decides their cause.
        by=("acks", "committed", "leader_epoch AS acked_after_epoch"),
        figures=(
            "min(offset) AS first_offset",
            "max(offset) AS last_offset",
            "min(at_ns) AS first_done_ns",
            "max(at_ns) AS last_done_ns",
        ),
    ),
    has_own_prediction=True,
    is_loss=True,
    found_as="{} loss",
    expected_by="loss.{}",
    example="""
        The final log lacks value 2, which was acked at offset 1.
        sends: 0=1 1=2
        polls: final 0=1
        gives: offset=1 value=2
    """,
)
