"""Finds whether the clock of the HW observations was set back in between.

The data: watermarks of source list_offsets with a leader epoch, in the order of their rows. One
thread asks one broker again and again, and writes each answer down before it asks again. So a
broker's answers for a partition are in a file in the order in which they came. Their times can
decrease there only if the clock did.

When it cannot tell: a step forward, or a step back that is shorter than the time between two
answers, leaves no trace. Neither changes which of a broker's answers comes first. A table whose
rows are in another order looks like a step.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from analysis.rows.files import TableFile
from ebbtide.record.tables import TABLES
from ebbtide.untrusted.parquet import read_rows

_WHERE = ("topic", "partition", "broker")
_JUDGED = (pc.field("source") == "list_offsets") & pc.field("leader_epoch").is_valid()


def has_gone_back(watermarks: Sequence[TableFile]) -> bool:
    """Return whether any of a table's files shows a step back.

    Raises `UsageError` when a file is damaged.
    """
    return any(_has_decrease(file) for file in watermarks if file.rows)


def _has_decrease(file: TableFile) -> bool:
    columns = [*_WHERE, "asked_ns", "at_ns"]
    rows = read_rows([file.source], "watermarks", schema=TABLES["watermarks"], columns=columns, where=_JUDGED)
    if pc.any(pc.less(rows["at_ns"], rows["asked_ns"])).as_py():
        return True
    ordered = rows.append_column("row", pa.array(range(len(rows)))).sort_by(
        [(name, "ascending") for name in (*_WHERE, "row")]
    )
    before, after = ordered.slice(0, len(ordered) - 1), ordered.slice(1)
    back = pc.less(after["at_ns"], before["at_ns"])
    for name in _WHERE:
        back = pc.and_(back, pc.equal(after[name], before[name]))
    return bool(pc.any(back).as_py())
