"""Spoils each checker of `analysis.reconcile` and shows that its tests see it.

`python -m bench.mutate_reconcile`, from the root of a checkout.

A mutant is a module with one change of its text, run in place of the module in this process. It has to find other
items than were planted, or than the reference checker finds in random histories, or to tell otherwise than that
what was committed or which drop of the HW an item is in. One that does not has survived, and the exit code is 1.
The unspoilt modules have to agree first.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from analysis.reconcile import (
    aborted_read,
    collecting,
    crowds,
    damaged,
    dirty_order,
    duplicate,
    history,
    hw_regression,
    inconsistent_offset,
    lost,
    poll_back,
    poll_skip,
    reconcile_all,
    reconciling,
    replica_divergence,
    unseen,
    vanished,
)
from analysis.reconcile.session import session

MUTANTS: tuple[tuple[ModuleType, str, str], ...] = (
    (lost, "        & ~stands\n", ""),
    (lost, '(F.col("offset") >= F.col("log_start"))', '(F.col("offset") > F.col("log_start"))'),
    (lost, '        & ~F.col("damaged")\n', ""),
    (lost, 'F.least(F.col("standing_epoch"), gone_again)', "gone_again"),
    (lost, 'F.least(F.col("standing_epoch"), gone_again)', 'F.col("standing_epoch")'),
    (lost, "F.when(era.isNull() | (epoch >= era), epoch)", "epoch"),
    (lost, "F.when(era.isNull(), 0).otherwise(era + 1)", "era + 1"),
    (lost, "F.when(era.isNull(), 0).otherwise(era + 1)", "F.lit(0)"),
    (history, 'F.coalesce("epoch", F.lit(0))', 'F.col("epoch")'),
    (history, '(F.col("placed") > 1) | ', ""),
    (history, '(F.col("at_offset") > 1) | ', ""),
    (collecting, 'F.col("at_ns") > last_ns', "F.lit(False)"),
    (unseen, 'one["first"] < F.col("offset")', 'one["first"] <= F.col("offset") - 2'),
    (unseen, 'one["last"] > F.col("offset")', 'one["last"] > F.col("offset") + 1'),
    (unseen, '(~one["read_committed"] | F.col("shown"))', "F.lit(True)"),
    (vanished, "(replaced | gone)", "replaced"),
    (vanished, "(replaced | gone)", "gone"),
    (vanished, "& ~_hidden(runs)", ""),
    (vanished, '~F.col("stands") & F.coalesce(other_ns', "F.coalesce(other_ns"),
    (vanished, '_in_final_read(F.col("last_final.final_ns")) | _later', "_later"),
    (inconsistent_offset, 'F.col("values_held") > 1', 'F.col("values_held") > 2'),
    (duplicate, 'F.col("stood_at") > 1', 'F.col("stood_at") > 2'),
    (aborted_read, "seen & failed", "shown & failed"),
    (aborted_read, "shown & aborted", "seen & aborted"),
    (crowds, 'F.desc_nulls_first("epoch")', 'F.asc_nulls_first("epoch")'),
    (crowds, 'F.desc_nulls_first("epoch")', 'F.desc_nulls_last("epoch")'),
    (crowds, "rowsBetween(_FIRST, -1)", "rowsBetween(_FIRST, _HERE)"),
    (crowds, '            F.when(peer, F.struct("next.polled_ns", "next.value")),\n', ""),
    (crowds, 'F.when(F.col("epoch").isNull(), F.col("last_of_known_epoch"))', 'F.col("last_of_known_epoch")'),
    (crowds, '            F.when(F.col("epoch").isNull(), F.col("last_of_known_epoch")),\n', ""),
    (crowds, 'F.col("oldest") <= 2', 'F.col("oldest") <= 1'),
    (crowds, '(*PLACE, "epoch_since")', "(*PLACE)"),
    (crowds, 'F.count(F.when(F.col("evidenced"), 1)).over(here)', 'F.count("*").over(here)'),
    (crowds, 'F.col(f"{which}_so_far") == 1', 'F.col(f"{which}_so_far") >= 1'),
    (dirty_order, "offset < before.offset", "offset > before.offset"),
    (dirty_order, '.orderBy("sequence", "offset", "value")', '.orderBy("offset", "value")'),
    (poll_skip, "offset - 1 > prev_offset", "offset - 2 > prev_offset"),
    (poll_skip, "where(skipped > 0)", "where(skipped > 1)"),
    (poll_back, "offset <= prev_offset", "offset < prev_offset"),
    (
        hw_regression,
        'earlier["high_watermark"] > F.col("high_watermark")',
        'earlier["high_watermark"] >= F.col("high_watermark")',
    ),
    (hw_regression, 'F.greatest("own", "previous", "older")', 'F.greatest("own", "previous")'),
    (hw_regression, 'F.col("anew") | own | ~passed', 'F.col("anew")'),
    (replica_divergence, "offset < checkpoint", "offset <= checkpoint"),
    (replica_divergence, 'F.struct("rows", "xor", "sum")', 'F.struct("rows", "xor")'),
    (replica_divergence, 'record = F.struct("leader_epoch", "value")', 'record = F.struct("leader_epoch")'),
    (replica_divergence, '(F.min("broker") != F.max("broker")) & ', ""),
    (damaged, "value IS NULL", "value IS NULL AND NOT final"),
)


class Suite:
    """Planted and random histories, and what must be found in them; reconciled whole, and narrowed."""

    def __init__(self, folder: Path) -> None:
        from reconcile_oracle import anomalies, committed_lost
        from reconcile_planted import planted_run
        from test_reconcile_random import Dice, run

        planted = [planted_run(random.Random(seed)) for seed in range(2)]
        self._planted = [{topic: kinds for topic, kinds in found.items() if kinds} for _, found in planted]
        drawn = [run(Dice(seed)) for seed in range(5)]
        self._drawn = [anomalies(builder.tables, builder.manifest()) for builder in drawn]
        self._committed = [len(committed_lost(builder.tables, builder.manifest())) for builder in drawn]
        builders = [builder for builder, _ in planted] + drawn
        self._records = [
            (builder.write(folder / str(number)), builder.manifest()) for number, builder in enumerate(builders)
        ]

    def differs(self, spark: SparkSession) -> str | None:
        """What shows that something is wrong; None: all is as it must be."""
        from reconcile_oracle import unnamed_drops
        from test_reconcile_planted import by_topic

        for narrows in (False, True):
            reconciling.is_small = lambda _, small=not narrows: small  # type: ignore[assignment]
            try:
                found = reconcile_all(spark, self._records)
            except Exception as error:
                return f"throws {type(error).__name__}"
            if [by_topic(one) for one in found[: len(self._planted)]] != self._planted:
                return "planted"
            first = len(self._planted)
            drawn = zip(self._records[first:], found[first:], self._drawn, self._committed, strict=True)
            for (record, _), told, expected, committed in drawn:
                rows = pq.read_table(record / "anomalies").to_pylist()
                items = [(row["kind"], row["topic"], row["partition"], row["offset"], row["value"]) for row in rows]
                if sorted(items, key=repr) != expected:
                    return "random histories"
                if sum(one.count for one in told.lost if one.committed) != committed:
                    return "what was committed"
                if unnamed_drops(rows, told.regressions):
                    return "drops of the HW"
        return None


def main() -> int:
    """Run all mutants; 1 where one survives."""
    # The tests' helpers are no package: pytest finds them in the folders of the tests.
    sys.path[:0] = ["tests", "tests/unit"]
    survived = 0
    with tempfile.TemporaryDirectory() as folder, session() as spark:
        suite = Suite(Path(folder))
        if (wrong := suite.differs(spark)) is not None:
            print(f"the checkers do not agree with the reference as they are: {wrong}")
            return 1
        for module, before, after in MUTANTS:
            path = Path(module.__file__ or "")
            text = path.read_text()
            if text.count(before) != 1:
                print(f"{path.name}: {before!r} stands there {text.count(before)} times")
                return 1
            exec(compile(text.replace(before, after), str(path), "exec"), module.__dict__)
            caught = suite.differs(spark)
            exec(compile(text, str(path), "exec"), module.__dict__)
            survived += caught is None
            print(f"{'caught by ' + caught if caught else 'SURVIVED':<28} {path.name}: {before.strip()}", flush=True)
    print(f"{len(MUTANTS) - survived} of {len(MUTANTS)} mutants caught")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
