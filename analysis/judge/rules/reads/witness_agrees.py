"""The witness returned exactly the records that the final read returned.

The witness is Spark's Kafka connector; not every run has one. Retention may have removed
records below the first one that the witness returned, between the two readings: those are
unknown.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from analysis.judge.history.evidence import Row
from analysis.judge.rules.clause import Clause, Finding, Judged, finding, unknown_finding
from analysis.witness.table import PROBLEM
from ebbtide.record.files import WITNESS_DIR
from ebbtide.record.tables import WITNESS_SCHEMA
from ebbtide.untrusted.parquet import read_rows

_PLACE = ["topic", "partition", "offset"]
_ROWS_MAX = 20
"""How many differing places are kept as evidence; all are counted."""


def _check(judged: Judged) -> Finding:
    record = judged.record
    problem = f"{WITNESS_DIR}/{PROBLEM}"
    if record.folder.has(problem):
        return unknown_finding(record.folder.bytes(problem).decode(errors="replace"))
    if record.manifest.final_consumer is None or not record.has("polls"):
        return unknown_finding("there is no final read to compare with")
    of_final = pc.field("consumer") == record.manifest.final_consumer
    final = read_rows(record.files("polls"), "polls", columns=WITNESS_SCHEMA.names, where=of_final)
    seen = read_rows(record.files(WITNESS_DIR), WITNESS_DIR, schema=WITNESS_SCHEMA)
    differing = _differing_places(final.cast(WITNESS_SCHEMA), seen)
    first = {
        (row["topic"], row["partition"]): row["offset_min"]
        for row in seen.group_by(["topic", "partition"]).aggregate([("offset", "min")]).to_pylist()
    }
    violations: list[Row] = []
    unsure: list[Row] = []
    cases = 0
    for batch in differing.to_batches():
        for row in batch.to_pylist():
            lowest = first.get((row["topic"], row["partition"]), 0)
            if row["by_witness"] is None and row["offset"] < lowest:
                why = "below the first record that the witness got: retention may have removed it between the readings"
                kept, row["why"] = unsure, why
            else:
                kept = violations
                cases += 1
            if len(kept) < _ROWS_MAX:
                kept.append(row)
    return finding(exercised=final.num_rows + seen.num_rows, violations=violations, unknown=unsure, cases=cases)


def _differing_places(final: pa.Table, seen: pa.Table) -> pa.Table:
    """Return the places where the two readings differ, in the order of offsets."""
    final = final.append_column("by_final_read", pa.repeat(pa.scalar(True), len(final)))
    seen = seen.rename_columns([*_PLACE, "value_of_witness"])
    seen = seen.append_column("by_witness", pa.repeat(pa.scalar(True), len(seen)))
    both = final.join(seen, _PLACE, join_type="full outer")
    one_only = pc.or_(pc.is_null(both["by_final_read"]), pc.is_null(both["by_witness"]))
    same = pc.or_(
        pc.fill_null(pc.equal(both["value"], both["value_of_witness"]), False),
        pc.and_(pc.is_null(both["value"]), pc.is_null(both["value_of_witness"])),
    )
    return both.filter(pc.or_(one_only, pc.invert(same))).sort_by([(name, "ascending") for name in _PLACE])


RULE = Clause(
    kip="harness",
    check=_check,
    applies=lambda judged: judged.record.folder.has_folder(WITNESS_DIR),
    reads_timeline=False,
    parts=(WITNESS_DIR, "polls"),
    is_shown_without_steps=True,
    unknown_when=(
        "the second reading failed, or lacks records below its first record. Only in runs with `--witness "
        "spark`, and needed there: a failed witness makes the run inconclusive"
    ),
    example="""
        The final read returned value 1. The witness returned nothing.
        polls: final 0=1 1=2
        witness: 0=1
        gives: offset=1 value=2
    """,
)
