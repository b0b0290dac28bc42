"""Says which tables of a record are made again from raw/.

These are the tables that are missing as a whole, and those half done. A remake removes the
checksums of what it replaces from SHA256SUMS, makes the files, and adds their checksums. So an
interrupted remake shows: SHA256SUMS has no entry for evidence.json, and none for the tables of that
part. The next analysis makes them again from the start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from analysis.evidence.report import EVIDENCE
from ebbtide.record.files import RecordFolder

TIMELINE = ("partitions", "brokers", "configs")
"""The tables that are made together from the metadata log."""

Part = Literal["timeline", "replicas"]
"""What is made together: from the metadata logs in raw/, or from the replicas' logs."""
PARTS: tuple[Part, ...] = ("timeline", "replicas")


def parts_to_remake(record: RecordFolder, summed: Mapping[str, str] | None, *, is_complete: bool) -> tuple[Part, ...]:
    """Return the parts of a record to make again from raw/.

    `summed`: the checksums of SHA256SUMS, if the record has it. A run that `is_complete` once had the whole
    timeline. If only some of its tables are left, the others were removed: that is a gap
    (`analysis.record.whole`), which is not filled.
    """
    has = any if is_complete else all
    lacks: dict[Part, bool] = {
        "timeline": not has(record.has_table(table) for table in TIMELINE),
        "replicas": not record.has_table("replicas"),
    }
    # A part without any sum is half remade.
    with_sums = {part for part in PARTS for name in summed or () if is_of_parts([part], name)}
    return tuple(part for part in PARTS if lacks[part] or (summed is not None and part not in with_sums))


def is_of_parts(parts: Iterable[Part], name: str) -> bool:
    """Return whether a file is written when these parts are made.

    `name` is the file's name in the record.
    """
    return name == EVIDENCE or any(_is_table_of(part, name) for part in parts)


def _is_table_of(part: Part, name: str) -> bool:
    if part == "timeline":
        return name in {f"{table}.parquet" for table in TIMELINE}
    return name == "watermarks/checkpoint.parquet" or name.startswith("replicas/")
