"""Adds to a row where else its value was, and what else was at its offset.

Only as much as the kinds of anomaly need. A value may be at any number of offsets, and an offset
may have held any number of values, in a record that a broken producer or somebody else wrote. So no
row carries all of the others. What decides is taken from them as extremes and counts, which are
exact; what is only shown is a list of at most `LISTED`. All of it is computed in sorted windows,
never in lists as long as the windows: the work is that of sorting the rows, times the partition's
leader epochs.

`with_places` adds, for a row's value:

- `in_final_log_of_partition`, `read_in_partition`: whether it stands, or an ordinary consumer got it,
  anywhere in the partition of the row.
- At its lowest place that is evidenced: `places`, the lowest of those places as structs (topic,
  partition, offset); `places_in_all`, how many there are; `standing`, at how many of them it
  stands; and `unreadable`, at how many nobody can read any more, because they are below the log
  start or in a partition whose final offsets are not known. Else null.
- At the lowest place where it was got although it never should have been
  (`is_forbidden_read`): `got_places` and `got_in_all`, likewise. Else null.

`with_others` adds, for a row's offset:

- `others`: the lowest other values, those that are evidenced first, as structs (value, polled_ns,
  epoch, evidenced, final_ns). `others_in_all`: how many there are, if more than `LISTED`; all rows
  without a value count as one.
- At the lowest value that is evidenced: `values`, the lowest of those values, and `values_in_all`,
  how many there are. Else null.
- `last_final`: what the final read returned there last, perhaps the row's value, as a struct
  (final_ns, value, polled_ns).
- `rival`: the last other value that a consumer got, without those of an older leader epoch, as a
  struct (polled_ns, value).
- `near_epochs`: structs (epoch, value) of values that do not stand. Of each stretch between two
  elections these are the two of the lowest leader epochs; so the lowest that is not older than a
  given election is among them, whichever value is left out. Two whose epoch is not known are added.
  Null for a row that was not acked.

`polled_ns` is the last time that any consumer got it, `epoch` the lowest leader epoch that is known
of it there.
"""

from __future__ import annotations

from analysis.spark.parts import placed_by
from analysis.spark.sql import Column, DataFrame, F, Window

LISTED = 20
"""How many places of a value, values of an offset, or replica rows of an offset are shown."""

PLACE = ["run", "topic", "partition", "offset"]

_EPOCH_UNKNOWN, _BEFORE_ALL = -(2**31), -(2**31) + 1


def is_forbidden_read() -> Column:
    """Return whether a row of the history is a read that never should have happened."""
    failed, aborted = F.coalesce("failed", F.lit(False)), F.coalesce("in_aborted", F.lit(False))
    seen, shown = F.col("polled_ns").isNotNull(), F.coalesce("shown", F.lit(False))
    return (seen & failed) | (shown & aborted)


def with_places(rows: DataFrame) -> DataFrame:
    """Add the columns on a row's value that the module describes.

    `rows` are all places of their values that matter, and are partitioned by `run` and `value`.
    """
    of_value = Window.partitionBy("run", "value")
    in_partition = Window.partitionBy("run", "value", "topic", "partition")
    so_far = of_value.orderBy("topic", "partition", "offset").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    place = F.struct("topic", "partition", "offset")

    def lowest(which: str) -> Column:
        return F.collect_list(F.when(F.col(which) & (F.col(f"{which}_so_far") <= LISTED), place))

    def at_lowest(which: str, aggregate: Column) -> Column:
        return F.when(F.col(which) & (F.col(f"{which}_so_far") == 1), aggregate.over(of_value))

    rows = rows.withColumn("got", is_forbidden_read()).withColumns(
        {
            "in_final_log_of_partition": F.bool_or("in_final_log").over(in_partition),
            "read_in_partition": F.bool_or(F.col("read_ns").isNotNull()).over(in_partition),
        }
    )
    rows = rows.withColumns(
        {f"{which}_so_far": F.count(F.when(F.col(which), 1)).over(so_far) for which in ("evidenced", "got")}
    )
    readable = F.coalesce(F.col("offset") >= F.col("log_start"), F.lit(False))
    return rows.withColumns(
        {
            "places": F.array_sort(at_lowest("evidenced", lowest("evidenced"))),
            "places_in_all": at_lowest("evidenced", F.count_if("evidenced")),
            "standing": at_lowest("evidenced", F.count_if(F.col("evidenced") & F.col("in_final_log"))),
            "unreadable": at_lowest("evidenced", F.count_if(F.col("evidenced") & ~readable)),
            "got_places": F.array_sort(at_lowest("got", lowest("got"))),
            "got_in_all": at_lowest("got", F.count_if("got")),
        }
    ).drop("got", "evidenced_so_far", "got_so_far")


def with_others(rows: DataFrame) -> DataFrame:
    """Add the columns on a row's offset that the module describes.

    `rows` are all rows of their offsets that have a value. They have `at_offset`, the number of
    rows at the offset with those that have no value, and `epoch_group`: see `epoch_group`.
    """
    of_offset = Window.partitionBy(*PLACE)
    polled = F.when(F.col("polled_ns").isNotNull(), F.struct("polled_ns", "value"))
    newest_first = of_offset.orderBy(F.desc_nulls_first("epoch"), F.desc_nulls_last("polled_ns"), "value")
    rows = placed_by(rows, *PLACE).withColumns(
        {
            "last_before": F.max(polled).over(newest_first.rowsBetween(Window.unboundedPreceding, -1)),
            "next": F.lead(F.struct("epoch", "polled_ns", "value")).over(newest_first),
        }
    )
    rows = rows.withColumn("rank", F.row_number().over(of_offset.orderBy(F.desc("evidenced"), "value")))
    oldest_first = Window.partitionBy(*PLACE, "epoch_group").orderBy("epoch", "value")
    rows = rows.withColumn("rank_in_group", F.row_number().over(oldest_first))
    one = F.struct("value", "polled_ns", "epoch", "evidenced", "final_ns")
    ranked = F.collect_list(F.when(F.col("rank") <= LISTED + 1, F.struct("rank", one.alias("one"))))
    near = F.collect_list(F.when(~F.col("in_final_log") & (F.col("rank_in_group") <= 2), F.struct("epoch", "value")))
    final = F.max(F.when(F.col("final_ns").isNotNull(), F.struct("final_ns", "value", "polled_ns")))
    rows = rows.withColumns(
        {
            "ranked": F.array_sort(ranked.over(of_offset)),
            "near_epochs": F.when(F.col("acked"), near.over(of_offset)),
            "last_final": final.over(of_offset),
            "last_of_known_epoch": F.max(F.when(F.col("epoch").isNotNull(), polled)).over(of_offset),
            "values_in_all": F.count_if("evidenced").over(of_offset),
        }
    )
    listed = F.transform("ranked", lambda entry: entry["one"])
    values = F.transform(F.filter(listed, lambda one: one["evidenced"]), lambda one: one["value"])
    lowest = F.col("evidenced") & (F.col("rank") == 1)
    in_all = F.col("at_offset") - 1
    return rows.withColumns(
        {
            "others": F.slice(F.filter(listed, lambda one: one["value"] != F.col("value")), 1, LISTED),
            "others_in_all": F.when(in_all > LISTED, in_all),
            "values": F.when(lowest, F.slice(values, 1, LISTED)),
            "values_in_all": F.when(lowest, F.col("values_in_all")),
            "rival": _rival(),
        }
    ).drop("last_before", "next", "last_of_known_epoch", "rank", "epoch_group", "rank_in_group", "ranked")


def _rival() -> Column:
    """Return the column `rival`, from rows in order.

    It looks at the rows before, and at the next row if it has the same leader epoch. If the row's
    own epoch is not known, any row counts.
    """
    peer = F.col("next.epoch").eqNullSafe(F.col("epoch")) & F.col("next.polled_ns").isNotNull()
    return F.array_max(
        F.array(
            F.col("last_before"),
            F.when(peer, F.struct("next.polled_ns", "next.value")),
            F.when(F.col("epoch").isNull(), F.col("last_of_known_epoch")),
        )
    )


def epoch_group() -> Column:
    """Return what `near_epochs` are grouped by.

    It is the last leader epoch of `elections` that is not newer than the row's.
    """
    older = F.filter("elections", lambda election: election["leader_epoch"] <= F.col("epoch"))
    last = F.coalesce(F.array_max(F.transform(older, lambda election: election["leader_epoch"])), F.lit(_BEFORE_ALL))
    known = F.when(F.col("epoch").isNull(), F.lit(_EPOCH_UNKNOWN)).otherwise(last)
    return F.when(~F.col("in_final_log"), known)
