"""Mutates each checker of `analysis.reconcile` to check that its tests notice.

`python -m bench.mutate_reconcile`, from the root of a checkout, runs all mutants; with `lost vanished`, those of these
modules; with `lost-3`, the third of that module.

A mutant is a module with one change of its text, which replaces the module in this process; no file is changed. The
tests must notice that it finds other items than were planted, or other items than the reference checker finds in
random histories, or that it says something else about an item, such as whether it was committed. They also look at the
rows that NumPy chooses: without one of them, few histories show other items. A mutant that nobody notices has
survived. A mutant that Spark cannot plan is broken, and shows nothing about the tests. With either the exit code is 1.
The original modules must agree first.

An end of Spark is no finding of a test. The session starts again and the mutant runs once more; if Spark ends again,
the bench ends with an error.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

import msgspec
import pyarrow.parquet as pq
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from analysis.judge.rules import registry
from analysis.judge.rules.anomaly import Anomaly
from analysis.record import scans
from analysis.record.record import Record
from analysis.rows import summing
from bench.reconcile_mutants import Mutant, all_mutants, is_only_narrowed
from bench.reconciling import reconcile_all
from ebbtide.errors import HarnessError
from ebbtide.record.files import RecordFolder
from ebbtide.signals import is_interrupt, unwind_on_signals
from harness.cli.analyze_stdin import JudgingSession

HISTORIES = 5
"""How many random histories each mutant is tested with."""

_BLOCKS_MAX = summing.BLOCKS_MAX
BATCHES = (scans.BATCH_ROWS, 5)
"""The sizes of the batches in which NumPy reads the rows: the ordinary size, and one that splits every group."""


class SparkEnded(HarnessError):
    """Spark answers no more, so that nothing is known of the mutant."""


class Suite:
    """Planted histories, so many random ones and the cases of the kinds, and what must be found in them.

    They are reconciled whole and then narrowed, or only whole. What only a narrowed reconciliation runs is not looked
    at whole, but once more with batches of few rows.
    """

    def __init__(self, folder: Path, histories: int = HISTORIES, *, narrowed: bool = True) -> None:
        from anomaly_kinds import build_setting, settings, unknown_cases
        from reconcile_histories import random_run
        from reconcile_oracle import anomalies_of, must_be_told
        from reconcile_planted import planted_run, run_with_commits_of_what_nobody_read

        self._narrowed = narrowed
        planted = [*(planted_run(random.Random(seed)) for seed in range(2)), run_with_commits_of_what_nobody_read()]
        self._planted = [{topic: kinds for topic, kinds in found.items() if kinds} for _, found in planted]
        drawn = [random_run(random.Random(seed)) for seed in range(histories)]
        drawn += [build_setting(setting) for setting in settings()]
        drawn += [build() for _, build, _ in unknown_cases().values()]
        self._drawn = [anomalies_of(builder) for builder in drawn]
        builders = [builder for builder, _ in planted] + drawn
        self._told = [must_be_told(builder.tables, builder.manifest()) for builder in builders]
        self._records = [
            Record(RecordFolder(builder.write(folder / str(number))), builder.manifest())
            for number, builder in enumerate(builders)
        ]

    def differs(self, spark: SparkSession, *, only_narrowed: bool | None = None) -> str | None:
        """Return what shows that something is wrong; None if all is as expected.

        `only_narrowed`: whether only a narrowed reconciliation runs what changed; None: nothing changed.

        Raises `AnalysisException` if Spark cannot plan the query, and `SparkEnded` if it ended meanwhile.
        """
        from reconcile_cases import Found
        from reconcile_oracle import is_told
        from reconcile_planted import by_topic
        from reconcile_rows import what_differs

        if self._narrowed and only_narrowed is not False and (wrong := what_differs()) is not None:
            return wrong
        ways = [(False, BATCHES[0])] if not only_narrowed else []
        if self._narrowed:
            ways += [(True, rows) for rows in (BATCHES[:1] if only_narrowed is False else BATCHES)]
        for narrows, batch_rows in ways:
            scans.BATCH_ROWS = batch_rows
            summing.BLOCKS_MAX = _BLOCKS_MAX if narrows else -1
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
            stored = [pq.read_table(record.folder / "anomalies").to_pylist() for record in self._records]
            for rows, expected in zip(stored[len(self._planted) :], self._drawn, strict=True):
                items = [(row["kind"], row["topic"], row["partition"], row["offset"], row["value"]) for row in rows]
                if sorted(items, key=repr) != expected:
                    return "random histories and cases"
            for rows, one, expected_of in zip(stored, found, self._told, strict=True):
                told = is_told(Found(rows, one))
                if wrong := next((kind for kind in told if told[kind] != expected_of[kind]), None):
                    return f"what is said of {wrong}"
        return None


def has_spark_ended(spark: SparkSession, error: Exception) -> bool:
    """Return whether a call failed because Spark ended or its memory ran out, not because of what it was asked."""
    try:
        return "OutOfMemoryError" in str(error) or spark.range(1).count() != 1
    except Exception:
        return True


def mutants_by_name() -> dict[str, Mutant]:
    """Each mutant by its module and its number in it, such as lost-3."""
    numbers: Counter[str] = Counter()
    names = {}
    for mutant in all_mutants():
        module = _module(mutant)
        numbers[module] += 1
        names[f"{module}-{numbers[module]}"] = mutant
    return names


def select_mutants(names: Sequence[str]) -> dict[str, Mutant]:
    """Return the mutants with these names, or of the modules with these names.

    Without names it returns all. Raises `ValueError`.
    """
    there = mutants_by_name()
    modules = sorted({_module(mutant) for mutant in there.values()})
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
    with (
        unwind_on_signals(),
        tempfile.TemporaryDirectory() as folder,
        contextlib.closing(JudgingSession(many=True)) as session,
    ):
        try:
            suite = Suite(Path(folder), args.histories, narrowed=not args.whole)
            return _run(suite, session, mutants)
        except SparkEnded as error:
            print(f"error: {error.render()}", file=sys.stderr)
            return 1


def _without_narrowed(mutants: dict[str, Mutant]) -> Iterator[tuple[str, Mutant]]:
    """Yield the mutants without those that --whole cannot see; say which these are."""
    for name, mutant in mutants.items():
        if is_only_narrowed(mutant):
            print(f"{'not run with --whole':<28} {name}: only a narrowed reconciliation runs it", flush=True)
        else:
            yield name, mutant


def _differs(suite: Suite, session: JudgingSession, name: str, *, only_narrowed: bool | None = None) -> str | None:
    """Return what differs, as `Suite.differs`; once more in a new session if Spark ends meanwhile.

    Raises `SparkEnded` if it ends again.
    """
    for is_last in (False, True):
        try:
            return suite.differs(session.started(), only_narrowed=only_narrowed)
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


def _become(module: ModuleType, text: str) -> None:
    """Let a module be this text, also for those that imported functions of it by their names."""
    exec(compile(text, module.__file__ or "", "exec"), module.__dict__)
    for name, user in list(sys.modules.items()):
        if name.startswith("analysis."):
            for key, value in list(vars(user).items()):
                if getattr(value, "__module__", None) == module.__name__ and key in module.__dict__:
                    setattr(user, key, module.__dict__[key])
    registry.ANOMALIES = tuple(_as_imported_now(sys.modules[kind.module].RULE) for kind in registry.ANOMALIES)


def _as_imported_now(kind: Anomaly) -> Anomaly:
    questions = tuple(getattr(sys.modules[one.__module__], one.__name__) for one in kind.questions)
    return msgspec.structs.replace(kind, questions=questions)


def _run(suite: Suite, session: JudgingSession, mutants: dict[str, Mutant]) -> int:
    if (wrong := _differs(suite, session, "the checkers as they are")) is not None:
        print(f"the checkers do not agree with the reference as they are: {wrong}")
        return 1
    not_caught = []
    for name, (module, before, after) in mutants.items():
        path = Path(module.__file__ or "")
        text = path.read_text()
        _become(module, text.replace(before, after))
        try:
            caught = _differs(suite, session, name, only_narrowed=is_only_narrowed((module, before, after)))
            became = f"caught by {caught}" if caught else "SURVIVED"
        except AnalysisException as error:
            # A name that is no column any more, say: every test would see that.
            caught, became = None, f"BROKEN, {error.getCondition() or 'no plan'}"
        finally:
            _become(module, text)
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
