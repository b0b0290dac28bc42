"""Whether the clock that gave the HW observations their times was set back while they were made.

The data: watermarks of source list_offsets with a leader epoch, in the order of their rows. One thread asks one broker,
again and again, and writes each answer down before it asks again; so a broker's answers for a partition lie in a file
in the order in which they came, and their times can go down there only if the clock did.

When it cannot tell: a step forward, or one back that is shorter than the time between two answers, leaves no trace. Nor
does it change which of a broker's answers comes first. A table whose rows are in another order looks like a step.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from analysis.reconcile.files import TableFile
from ebbtide.errors import UsageError
from ebbtide.record.tables import TABLES

_WHERE = ("topic", "partition", "broker")
_JUDGED = (pc.field("source") == "list_offsets") & pc.field("leader_epoch").is_valid()


def went_back(watermarks: Sequence[TableFile]) -> bool:
    """Whether any of a table's files tells of a step back. Raises `UsageError` when one is damaged."""
    return any(_goes_back(file) for file in watermarks if file.rows)


def _goes_back(file: TableFile) -> bool:
    try:
        rows = ds.dataset([str(file.path)], format="parquet", schema=TABLES["watermarks"]).to_table(
            columns=[*_WHERE, "asked_ns", "at_ns"], filter=_JUDGED
        )
    except (pa.ArrowException, OSError) as error:
        raise UsageError("the table watermarks cannot be read", where=str(file.path), got=str(error)) from None
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
