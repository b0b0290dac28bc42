"""Where one value stood, and what stood at one offset: as much of it as the kinds of anomaly need, and no more.

A value may stand at any number of offsets, and an offset may have held any number of values, in a record that a
broken producer or somebody else wrote. So no row carries all of the others: what decides is taken from them as
extremes and counts, which are exact, and what is only shown is a list of at most `LISTED`. All of it is in windows
that are sorted, never in lists as long as the windows: the work is that of sorting the rows.

`with_places` adds, of a row's value:

- `stands_in_partition`, `read_in_partition`: whether it stands, or an ordinary consumer got it, anywhere in the
  partition of the row;
- at its lowest place that is evidenced: `places`, the lowest of those places as structs (topic, partition, offset),
  `stood_at`, how many there are in all, and `standing`, at how many of them it stands; else null;
- at the lowest place where it was got though it never should have been (`aborted_read.forbidden`): `got_places`
  and `got_at`, likewise; else null.

`with_others` adds, of a row's offset:

- `others`: the lowest other values, those that are evidenced first, as structs (value, polled_ns, epoch, evidenced,
  final_ns); `others_in_all`: how many there are in all, if that is more;
- at the lowest value that is evidenced: `values`, the lowest of those values, and `values_held`, how many there are
  in all; else null;
- `last_final`: what the final read returned there last, as a struct (final_ns, value, polled_ns), perhaps the row's;
- `rival`: the last that a consumer got of another value, one of an older leader epoch apart, as a struct (polled_ns,
  value);
- `near_epochs`: of the values that do not stand, as structs (epoch, value), the two of the lowest leader epochs, in
  each leader epoch that the metadata log has or before the next one that it has. For any of those leader epochs they
  hold the lowest one that is not older, whichever of the values is left out. Two more have no known leader epoch.

`polled_ns` is the last time that any consumer got it, `epoch` the lowest leader epoch that is known of it there.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from analysis.reconcile import aborted_read

LISTED = 20
"""How many places of a value, or values of an offset, are shown."""

PLACE = ["run", "topic", "partition", "offset"]

_FIRST, _HERE = Window.unboundedPreceding, Window.currentRow
_EPOCH_UNKNOWN, _BEFORE_ALL = -2, -1


def with_places(rows: DataFrame) -> DataFrame:
    """See the module. `rows` are all places of their values that matter, and are partitioned by `run` and `value`."""
    of_value = Window.partitionBy("run", "value")
    in_partition = Window.partitionBy("run", "value", "topic", "partition")
    so_far = of_value.orderBy("topic", "partition", "offset").rowsBetween(_FIRST, _HERE)
    place = F.struct("topic", "partition", "offset")

    def lowest(which: str) -> Column:
        return F.collect_list(F.when(F.col(which) & (F.col(f"{which}_so_far") <= LISTED), place)).over(of_value)

    def count(where: Column) -> Column:
        return F.count(F.when(where, 1)).over(of_value)

    rows = rows.withColumn("got", aborted_read.forbidden()).withColumns(
        {
            "stands_in_partition": F.bool_or("stands").over(in_partition),
            "read_in_partition": F.bool_or(F.col("read_ns").isNotNull()).over(in_partition),
        }
    )
    rows = rows.withColumns(
        {f"{which}_so_far": F.count(F.when(F.col(which), 1)).over(so_far) for which in ("evidenced", "got")}
    )
    rows = rows.withColumns(
        {
            "places": lowest("evidenced"),
            "stood_at": count(F.col("evidenced")),
            "standing": count(F.col("evidenced") & F.col("stands")),
            "got_places": lowest("got"),
            "got_at": count(F.col("got")),
        }
    )
    return rows.withColumns(
        {
            name: F.when(F.col(which) & (F.col(f"{which}_so_far") == 1), F.col(name))
            for which, names in (("evidenced", ("places", "stood_at", "standing")), ("got", ("got_places", "got_at")))
            for name in names
        }
    ).drop("got", "evidenced_so_far", "got_so_far")


def with_others(rows: DataFrame) -> DataFrame:
    """See the module. `rows` are all of their offsets that have a value.

    They have `at_offset`, how many there are with those that have none, and `epoch_since`: see `epoch_since`.
    """
    here = Window.partitionBy(*PLACE)
    polled = F.when(F.col("polled_ns").isNotNull(), F.struct("polled_ns", "value"))
    newest_first = here.orderBy(F.desc_nulls_first("epoch"), F.desc_nulls_last("polled_ns"), "value")
    rows = rows.repartition(*PLACE).withColumns(
        {
            "newer": F.max(polled).over(newest_first.rowsBetween(_FIRST, -1)),
            "next": F.lead(F.struct("epoch", "polled_ns", "value")).over(newest_first),
        }
    )
    rows = rows.withColumn("rank", F.row_number().over(here.orderBy(F.desc("evidenced"), "value")))
    oldest_first = Window.partitionBy(*PLACE, "epoch_since").orderBy("epoch", "value")
    rows = rows.withColumn("oldest", F.row_number().over(oldest_first))
    one = F.struct("value", "polled_ns", "epoch", "evidenced", "final_ns")
    near = F.when(~F.col("stands") & (F.col("oldest") <= 2), F.struct("epoch", "value"))
    rows = rows.withColumns(
        {
            "here": F.array_sort(
                F.collect_list(F.when(F.col("rank") <= LISTED + 1, F.struct("rank", one.alias("one")))).over(here)
            ),
            "near_epochs": F.collect_list(near).over(here),
            "last_final": F.max(F.when(F.col("final_ns").isNotNull(), F.struct("final_ns", "value", "polled_ns"))).over(
                here
            ),
            "last_of_known_epoch": F.max(F.when(F.col("epoch").isNotNull(), polled)).over(here),
            "values_held": F.count(F.when(F.col("evidenced"), 1)).over(here),
        }
    )
    listed = F.transform("here", lambda entry: entry["one"])
    values = F.transform(F.filter(listed, lambda one: one["evidenced"]), lambda one: one["value"])
    lowest = F.col("evidenced") & (F.col("rank") == 1)
    in_all = F.col("at_offset") - 1
    return rows.withColumns(
        {
            "others": F.slice(F.filter(listed, lambda one: one["value"] != F.col("value")), 1, LISTED),
            "others_in_all": F.when(in_all - F.col("nameless").cast("int") > LISTED, in_all),
            "values": F.when(lowest, F.slice(values, 1, LISTED)),
            "values_held": F.when(lowest, F.col("values_held")),
            "rival": _rival(),
        }
    ).drop("newer", "next", "last_of_known_epoch", "rank", "oldest", "here")


def _rival() -> Column:
    """Of the rows in order: those before, the next if it is of the same leader epoch; any, if its own is not known."""
    peer = F.col("next.epoch").eqNullSafe(F.col("epoch")) & F.col("next.polled_ns").isNotNull()
    return F.array_max(
        F.array(
            F.col("newer"),
            F.when(peer, F.struct("next.polled_ns", "next.value")),
            F.when(F.col("epoch").isNull(), F.col("last_of_known_epoch")),
        )
    )


def epoch_since() -> Column:
    """The last leader epoch of `elections` that is not newer than the row's: what `near_epochs` are grouped by."""
    older = F.filter("elections", lambda election: election["leader_epoch"] <= F.col("epoch"))
    last = F.coalesce(F.array_max(F.transform(older, lambda election: election["leader_epoch"])), F.lit(_BEFORE_ALL))
    known = F.when(F.col("epoch").isNull(), F.lit(_EPOCH_UNKNOWN)).otherwise(last)
    return F.when(~F.col("stands"), known)
