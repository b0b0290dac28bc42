"""The mutants of `bench.mutate_reconcile`: small changes of the checkers, each of which makes one of them wrong.

Those of what several kinds of anomalies share stand here. Those of a kind stand with its tests.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from types import ModuleType

from analysis.items import summary
from analysis.reconcile import commits, copies, crowds, history
from analysis.record import groups as rows_groups
from analysis.record import scans as batches
from analysis.rows import choose, compare, replicas, small_tables, values

Mutant = tuple[ModuleType, str, str]
"""A module, a piece of its text that occurs once, and the text that replaces it."""

TESTS = str(Path(__file__).parents[1] / "tests" / "support")
"""The tests' helpers are no package: pytest finds them in this folder."""

_SHARED: tuple[Mutant, ...] = (
    (history, 'F.coalesce("epoch", F.lit(0))', 'F.col("epoch")'),
    (history, '(F.col("placed") > 1) | ', ""),
    (history, '(F.col("at_offset") > 1) | ', ""),
    (small_tables, "ordered[1:, 1] > before[:-1]", "False"),
    (summary, 'F.col("kind").isin(*names)', '~F.col("kind").isin(*names)'),
    (crowds, "seen & failed", "shown & failed"),
    (crowds, "shown & aborted", "seen & aborted"),
    (crowds, 'F.desc_nulls_first("epoch")', 'F.asc_nulls_first("epoch")'),
    (crowds, 'F.desc_nulls_first("epoch")', 'F.desc_nulls_last("epoch")'),
    (crowds, "(Window.unboundedPreceding, -1)", "(Window.unboundedPreceding, Window.currentRow)"),
    (crowds, '            F.when(peer, F.struct("next.polled_ns", "next.value")),\n', ""),
    (crowds, 'F.when(F.col("epoch").isNull(), F.col("last_of_known_epoch"))', 'F.col("last_of_known_epoch")'),
    (crowds, '            F.when(F.col("epoch").isNull(), F.col("last_of_known_epoch")),\n', ""),
    (crowds, 'F.col("rank_in_group") <= 2', 'F.col("rank_in_group") <= 1'),
    (crowds, '(*PLACE, "epoch_group")', "(*PLACE)"),
    (crowds, 'F.count_if("evidenced").over(of_offset)', 'F.count("*").over(of_offset)'),
    (crowds, 'F.col(f"{which}_so_far") == 1', 'F.col(f"{which}_so_far") >= 1'),
    (commits, '        & (F.col("broker") == F.col("leader"))\n', ""),
    (commits, '        & (F.col("since_ns") <= F.col("asked_ns"))\n', ""),
    (commits, 'F.col("until_ns").isNull() | (F.col("done_ns")', 'F.col("until_ns").isNull() | (F.col("asked_ns")'),
    (commits, '        if f"{topic}-{partition}" in facts.final_offsets\n', ""),
    (commits, '.where("asked_ns > first_ns")', ""),
    (commits, 'F.col("settled_ns") < F.col("asked_ns")', "F.lit(True)"),
    (commits, '(F.col("status") == "acked")', '(F.col("status") != "failed")'),
    (copies, "(shown OR (committed AND standing))", "(committed AND standing)"),
    (copies, "(shown OR (committed AND standing))", "shown"),
    (copies, "(shown OR (committed AND standing))", "(shown OR standing)"),
    (copies, "NOT aborted AND (shown OR (committed", "(shown OR (committed"),
    (copies, "NOT aborted AND (shown OR standing AND", "(shown OR standing AND"),
    (rows_groups, "enumerate(numbers)", "enumerate(numbers[:1])"),
    (batches, 'self.numbers("consumer") == final', 'self.numbers("consumer") != final'),
    (compare, "alike &= ~(has_acks & has_open) | (acks == open_).all(1)\n", "pass\n"),
    (compare, "alike &= ~(has_acks & has_shut) | (shown == shut).all(1)\n", "pass\n"),
    (compare, "self._place.final_read & same_epochs", "self._place.final_read"),
    (values, "self.twice | (forbidden != 0)", "forbidden != 0"),
    (values, "self.twice | (forbidden != 0)", "self.twice"),
    (replicas, 'sums[name]) for name in ("rows", "xor", "sum")]', 'sums[name]) for name in ("rows", "xor")]'),
    (choose, "(offset <= before)", "(offset < before)"),
    (choose, "counts = chosen.values.hold(rows)", "counts = np.zeros(rows.count, np.bool_)"),
    (choose, "    if in_blocks:\n", "    if False:\n"),
)


@cache
def all_mutants() -> tuple[Mutant, ...]:
    """The mutants of all kinds, and of what they share."""
    if TESTS not in sys.path:
        sys.path.insert(0, TESTS)
    from anomaly_kinds import modules

    return tuple(mutant for kind in modules() for mutant in getattr(kind, "MUTANTS", ())) + _SHARED


_OF_CHOSEN_ROWS = ("groups", "scans", "compare", "values", "replicas", "send_order", "choose")


def is_only_narrowed(mutant: Mutant) -> bool:
    """Whether only a narrowed reconciliation runs what is changed: with --whole no test can see it."""
    return mutant[0].__name__.rpartition(".")[2] in _OF_CHOSEN_ROWS
