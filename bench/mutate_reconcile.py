"""Mutates each checker of `analysis.reconcile` to check that its tests notice.

`python -m bench.mutate_reconcile`, from the root of a checkout, runs all mutants; with `lost vanished`, those of these
modules; with `lost-3`, the third of that module.

A mutant is a module with one change of its text, which replaces the module in this process; no file is changed. The
tests must notice that it finds other items than were planted, or other items than the reference checker finds in
random histories, or that it says something else about an item: whether it was committed, its drop of the HW, its group
of duplicates, whether the answers that show it are settled. A mutant that nobody notices has survived. A mutant that
Spark cannot plan is broken, and shows nothing about the tests. With either the exit code is 1. The original modules
must agree first.

An end of Spark is no finding of a test. The session starts again and the mutant runs once more; if Spark ends again,
the bench ends with an error.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

import pyarrow.parquet as pq
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from analysis.reconcile import (
    aborted_read,
    collecting,
    commit_back,
    commit_lost,
    commits,
    copied_twice,
    copies,
    crowds,
    damaged,
    dirty_order,
    duplicate,
    hanging_transaction,
    history,
    hw_regression,
    inconsistent_offset,
    input_skipped,
    lost,
    poll_back,
    poll_skip,
    reconcile_all,
    reconciling,
    replica_divergence,
    row_sums,
    summary,
    unseen,
    vanished,
)
from ebbtide.errors import HarnessError
from ebbtide.signals import is_interrupt, unwind_on_signals
from harness.cli.judging import JudgingSession

HISTORIES = 5
"""How many random histories each mutant is tested with."""

Mutant = tuple[ModuleType, str, str]
"""A module, a piece of its text that occurs once, and the text that replaces it."""

MUTANTS: tuple[Mutant, ...] = (
    (lost, '        & ~F.col("in_final_log_of_partition")\n', ""),
    (lost, '(F.col("offset") >= F.col("log_start"))', '(F.col("offset") > F.col("log_start"))'),
    (lost, '        & ~F.col("damaged")\n', ""),
    (lost, " & ~_can_hold_unread_record(runs)", ""),
    (lost, 'F.least(F.col("final_log_epoch"), gone_again)', "gone_again"),
    (lost, 'F.least(F.col("final_log_epoch"), gone_again)', 'F.col("final_log_epoch")'),
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
    (vanished, "& ~_can_be_hidden(runs)", ""),
    (vanished, '~F.col("in_final_log") & F.coalesce(other_ns', "F.coalesce(other_ns"),
    (vanished, '_is_replaced_in_final_read(F.col("last_final.final_ns")) | _is_replaced_later', "_is_replaced_later"),
    (inconsistent_offset, 'F.col("values_in_all") > 1', 'F.col("values_in_all") > 2'),
    (duplicate, 'F.col("places_in_all") > 1', 'F.col("places_in_all") > 2'),
    (duplicate, 'F.col("standing") > 1', 'F.col("standing") > 0'),
    (duplicate, 'F.col("unreadable") > 0', 'F.col("unreadable") > 1'),
    (duplicate, "facts.idempotent == producers", "True"),
    (summary, "(*_PARTITION, *by)", "(*_PARTITION)"),
    (summary, 'first = F.min(F.struct("offset"', 'first = F.max(F.struct("offset"'),
    (summary, 'F.col("kind").isin(*kinds)', '~F.col("kind").isin(*kinds)'),
    (aborted_read, "seen & failed", "shown & failed"),
    (aborted_read, "shown & aborted", "seen & aborted"),
    (crowds, 'F.desc_nulls_first("epoch")', 'F.asc_nulls_first("epoch")'),
    (crowds, 'F.desc_nulls_first("epoch")', 'F.desc_nulls_last("epoch")'),
    (crowds, "rowsBetween(_FIRST, -1)", "rowsBetween(_FIRST, _HERE)"),
    (crowds, '            F.when(peer, F.struct("next.polled_ns", "next.value")),\n', ""),
    (crowds, 'F.when(F.col("epoch").isNull(), F.col("last_of_known_epoch"))', 'F.col("last_of_known_epoch")'),
    (crowds, '            F.when(F.col("epoch").isNull(), F.col("last_of_known_epoch")),\n', ""),
    (crowds, 'F.col("rank_in_group") <= 2', 'F.col("rank_in_group") <= 1'),
    (crowds, '(*PLACE, "epoch_group")', "(*PLACE)"),
    (crowds, 'F.count_if("evidenced").over(of_offset)', 'F.count("*").over(of_offset)'),
    (crowds, 'F.col(f"{which}_so_far") == 1', 'F.col(f"{which}_so_far") >= 1'),
    (dirty_order, "offset < before.offset", "offset > before.offset"),
    (dirty_order, '.orderBy("sequence", "offset", "value")', '.orderBy("offset", "value")'),
    (poll_skip, "offset - 1 > prev_offset", "offset - 2 > prev_offset"),
    (poll_skip, "(skipped > 0)", "(skipped > 1)"),
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
    (commit_lost, "served.offset IS NULL OR (made.acked AND made.done_ns < newest.asked_ns)", "served.offset IS NULL"),
    (commit_lost, "made.done_ns < newest.asked_ns", "made.asked_ns < newest.asked_ns"),
    (commit_lost, "made.acked AND ", ""),
    (commit_lost, "shown_ns IS NULL OR shown_ns <= done_ns", "true"),
    (commit_lost, "shown_ns IS NULL OR shown_ns <= done_ns", "shown_ns IS NULL"),
    (commit_lost, '.where("made.acked")', ""),
    (commit_lost, 'F.col("made.done_ns").alias("time")', 'F.col("made.asked_ns").alias("time")'),
    (commit_lost, 'F.max("made_then")', 'F.min("made_then")'),
    (commit_back, "served.offset IS NULL OR (made.acked AND", "(made.acked AND"),
    (commit_back, " AND before.served.done_ns < asked_ns", ""),
    (commit_back, 'F.col("settled") & F.col("before.settled")', 'F.col("settled")'),
    (commit_back, "made.acked AND ", ""),
    (commit_back, "made.done_ns < before.made.asked_ns", "made.asked_ns < before.made.asked_ns"),
    (commit_back, 'F.col("settled") & F.col("before.settled")', 'F.col("before.settled")'),
    (commits, '        & (F.col("broker") == F.col("leader"))\n', ""),
    (commits, '        & (F.col("since_ns") <= F.col("asked_ns"))\n', ""),
    (commits, 'F.col("until_ns").isNull() | (F.col("done_ns")', 'F.col("until_ns").isNull() | (F.col("asked_ns")'),
    (commits, '        if f"{topic}-{partition}" in facts.final_offsets\n', ""),
    (commit_lost, "settled AND ", ""),
    (commits, '.where("asked_ns > first_ns")', ""),
    (commits, 'F.col("settled_ns") < F.col("asked_ns")', "F.lit(True)"),
    (commits, '(F.col("status") == "acked")', '(F.col("status") != "failed")'),
    (hanging_transaction, "ends.last_stable < ends.high_watermark", "ends.last_stable <= ends.high_watermark"),
    (hanging_transaction, " and why_unknown(facts) is None", ""),
    (hanging_transaction, 'F.min("value")', 'F.max("value")'),
    (hanging_transaction, 'F.col("consumer").alias("final_consumer")', 'F.lit(9999).alias("final_consumer")'),
    (hanging_transaction, 'F.col("offset").alias("last_stable"),', '(F.col("offset") + 1).alias("last_stable"),'),
    (hanging_transaction, "still.get(name) != facts.final_offsets[name].last_stable", "False"),
    (copies, "(shown OR (committed AND standing))", "(committed AND standing)"),
    (copies, "(shown OR (committed AND standing))", "shown"),
    (copies, "(shown OR (committed AND standing))", "(shown OR standing)"),
    (copies, "NOT aborted AND (shown OR (committed", "(shown OR (committed"),
    (copies, "NOT aborted AND (shown OR standing)", "(shown OR standing)"),
    (copied_twice, "copies > 1", "copies > 2"),
    (
        copied_twice,
        ".groupBy(*copies.INPUT)",
        '.groupBy("run", "topic", "partition", "offset", F.lit("g").alias("group"))',
    ),
    (input_skipped, "offset < committed", "offset <= committed"),
    (input_skipped, 'F.max("offset")', 'F.min("offset")'),
    (input_skipped, 'where("may_be_visible")', 'where("visible")'),
    (input_skipped, "NOT txn_outcome <=> 'committed'", "txn_outcome = 'unknown'"),
    (input_skipped, "NOT txn_outcome <=> 'committed'", "txn_outcome = 'aborted'"),
    (input_skipped, 'where("final AND value IS NOT NULL")', 'where("value IS NOT NULL")'),
    (input_skipped, "facts.complete and facts.final_consumer", "facts.final_consumer"),
    (input_skipped, "if _why_not_judged(facts, one)}", "if False}"),
    (damaged, "value IS NULL", "value IS NULL AND NOT final"),
    (row_sums, '_summary(groups, hashes, bits, "shown", ~hidden)', '_summary(groups, hashes, bits, "shown")'),
    (row_sums, "enumerate(numbers)", "enumerate(numbers[:1])"),
    (row_sums, "consumers == rows.final", "consumers != rows.final"),
)

ONLY_NARROWED = frozenset({'F.struct("rows", "xor", "sum")'}) | {one[1] for one in MUTANTS if one[0] is row_sums}
"""What only a narrowed reconciliation runs: with --whole no test can see a change of it, so it is not mutated."""


class SparkEnded(HarnessError):
    """Spark answers no more, so that nothing is known of the mutant."""


class Suite:
    """Planted histories and so many random ones, and what must be found in them.

    They are reconciled whole and then narrowed, or only whole.
    """

    def __init__(self, folder: Path, histories: int = HISTORIES, *, narrowed: bool = True) -> None:
        from reconcile_dice import Dice, run
        from reconcile_oracle import anomalies, committed_lost
        from reconcile_oracle_commits import commits_gone_back
        from reconcile_oracle_groups import groups
        from reconcile_planted import planted_run, run_with_commits_of_what_nobody_read

        self._narrowed = narrowed
        planted = [*(planted_run(random.Random(seed)) for seed in range(2)), run_with_commits_of_what_nobody_read()]
        self._planted = [{topic: kinds for topic, kinds in found.items() if kinds} for _, found in planted]
        drawn = [run(Dice(seed)) for seed in range(histories)]
        self._drawn = [anomalies(builder.tables, builder.manifest()) for builder in drawn]
        self._groups = [
            groups(items, builder.tables, builder.manifest()) for items, builder in zip(self._drawn, drawn, strict=True)
        ]
        self._committed = [len(committed_lost(builder.tables, builder.manifest())) for builder in drawn]
        self._gone_back = [commits_gone_back(builder.tables, builder.manifest()) for builder in drawn]
        builders = [builder for builder, _ in planted] + drawn
        self._records = [
            (builder.write(folder / str(number)), builder.manifest()) for number, builder in enumerate(builders)
        ]

    @property
    def records(self) -> list[Path]:
        """The folders of the histories."""
        return [record for record, _ in self._records]

    def differs(self, spark: SparkSession) -> str | None:
        """Return what shows that something is wrong; None if all is as expected.

        Raises `AnalysisException` if Spark cannot plan the query, and `SparkEnded` if it ended meanwhile.
        """
        from reconcile_oracle import unnamed_drops
        from reconcile_oracle_commits import gone_back_of
        from reconcile_oracle_groups import groups_of
        from reconcile_planted import by_topic

        for narrows in (False, True) if self._narrowed else (False,):
            reconciling.is_small = lambda _, small=not narrows: small  # type: ignore[assignment]
            try:
                found = reconcile_all(spark, self._records)
            except AnalysisException:
                raise
            except Exception as error:
                if is_interrupt(error):
                    raise
                if has_spark_ended(spark, error):
                    raise SparkEnded("Spark ended", got=type(error).__name__) from error
                return f"throws {type(error).__name__}"
            if [by_topic(one) for one in found[: len(self._planted)]] != self._planted:
                return "planted"
            first = len(self._planted)
            expectations = zip(self._drawn, self._committed, self._groups, self._gone_back, strict=True)
            drawn = zip(self._records[first:], found[first:], expectations, strict=True)
            for (record, _), told, (expected, committed, grouped, gone_back) in drawn:
                rows = pq.read_table(record / "anomalies").to_pylist()
                items = [(row["kind"], row["topic"], row["partition"], row["offset"], row["value"]) for row in rows]
                if sorted(items, key=repr) != expected:
                    return "random histories"
                if sum(one.count for one in told.lost if one.committed) != committed:
                    return "what was committed"
                if groups_of(told) != grouped:
                    return "groups of duplicates"
                if unnamed_drops(rows, told.regressions):
                    return "drops of the HW"
                if gone_back_of(told) != gone_back:
                    return "commits that went back"
        return None


def has_spark_ended(spark: SparkSession, error: Exception) -> bool:
    """Return whether a call failed because Spark ended or its memory ran out, not because of what it was asked."""
    try:
        return "OutOfMemoryError" in str(error) or spark.range(1).count() != 1
    except Exception:
        return True


def mutants_by_name(mutants: Sequence[Mutant] = MUTANTS) -> dict[str, Mutant]:
    """Each mutant by its module and its number in it, such as lost-3."""
    numbers: Counter[str] = Counter()
    names = {}
    for mutant in mutants:
        module = _module(mutant)
        numbers[module] += 1
        names[f"{module}-{numbers[module]}"] = mutant
    return names


def select_mutants(names: Sequence[str], mutants: Sequence[Mutant] = MUTANTS) -> dict[str, Mutant]:
    """Return the mutants with these names, or of the modules with these names.

    Without names it returns all. Raises `ValueError`.
    """
    there = mutants_by_name(mutants)
    modules = sorted({_module(mutant) for mutant in mutants})
    for name in names:
        if name not in modules and name not in there:
            raise ValueError(
                f"no mutant and no module with mutants is called {name!r}: there are {', '.join(modules)}, "
                f"and by number {modules[0]}-1 and so on"
            )
    return {name: mutant for name, mutant in there.items() if not names or name in names or _module(mutant) in names}


def _module(mutant: Mutant) -> str:
    return mutant[0].__name__.rpartition(".")[2]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the mutants; 1 where one survives or is broken."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.mutate_reconcile",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="a module, or a mutant of it: lost, lost-3")
    parser.add_argument(
        "--histories", type=int, default=HISTORIES, help="random histories (default %(default)s; fewer see less)"
    )
    parser.add_argument("--whole", action="store_true", help="do not reconcile narrowed too; takes half the time")
    args = parser.parse_args(argv)
    try:
        mutants = select_mutants(args.names)
    except ValueError as error:
        parser.error(str(error))
    # Before minutes of work, not in the middle of them.
    for name, (module, before, _) in mutants.items():
        if (times := Path(module.__file__ or "").read_text().count(before)) != 1:
            print(f"{name}: {before!r} stands {times} times in {module.__name__}, not once", file=sys.stderr)
            return 1
    if args.whole:
        mutants = dict(_without_narrowed(mutants))
    # The tests' helpers are no package: pytest finds them in this folder.
    sys.path.insert(0, "tests/support")
    with unwind_on_signals(), tempfile.TemporaryDirectory() as folder, JudgingSession.keep():
        assert JudgingSession.kept is not None
        try:
            suite = Suite(Path(folder), args.histories, narrowed=not args.whole)
            return _run(suite, JudgingSession.kept, mutants)
        except SparkEnded as error:
            print(f"error: {error.render()}", file=sys.stderr)
            return 1


def _without_narrowed(mutants: dict[str, Mutant]) -> Iterator[tuple[str, Mutant]]:
    """Yield the mutants without those that --whole cannot see; say which these are."""
    for name, mutant in mutants.items():
        if mutant[1] in ONLY_NARROWED:
            print(f"{'not run with --whole':<28} {name}: only a narrowed reconciliation runs it", flush=True)
        else:
            yield name, mutant


def _differs(suite: Suite, session: JudgingSession, name: str) -> str | None:
    """Return what differs, as `Suite.differs`; once more in a new session if Spark ends meanwhile.

    Raises `SparkEnded` if it ends again.
    """
    for is_last in (False, True):
        try:
            return suite.differs(session.spark_for(suite.records))
        except SparkEnded as error:
            session.close()
            if is_last:
                raise SparkEnded(f"Spark ended twice with {name}", got=error.got, next="dmesg; free -m") from error
            print(
                f"Spark ended with {name}, which says nothing about the tests: once more", file=sys.stderr, flush=True
            )
        finally:
            session.collect_garbage()
    raise AssertionError


def _run(suite: Suite, session: JudgingSession, mutants: dict[str, Mutant]) -> int:
    if (wrong := _differs(suite, session, "the checkers as they are")) is not None:
        print(f"the checkers do not agree with the reference as they are: {wrong}")
        return 1
    not_caught = []
    for name, (module, before, after) in mutants.items():
        path = Path(module.__file__ or "")
        text = path.read_text()
        exec(compile(text.replace(before, after), str(path), "exec"), module.__dict__)
        try:
            caught = _differs(suite, session, name)
            became = f"caught by {caught}" if caught else "SURVIVED"
        except AnalysisException as error:
            # A name that is no column any more, say: every test would see that.
            caught, became = None, f"BROKEN, {error.getCondition() or 'no plan'}"
        finally:
            exec(compile(text, str(path), "exec"), module.__dict__)
        if caught is None:
            not_caught.append(name)
        print(f"{became:<28} {name}: {before.strip()}", flush=True)
    print(f"{len(mutants) - len(not_caught)} of {len(mutants)} mutants caught")
    if not_caught:
        print(f"once more: python -m bench.mutate_reconcile {' '.join(not_caught)}")
    return 1 if not_caught else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
