"""What the witness is told, and witness/: a folder of Parquet, and `problem.txt` where the connector could not read."""

from __future__ import annotations

import msgspec
import pyarrow as pa

from ebbtide.record.manifest import FinalOffsets

PROBLEM = "problem.txt"

WITNESS_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("value", pa.int64()),
    ]
)
"""One record that the connector returned; `value` null: not a record of this run, or a damaged one."""


class WitnessConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What to read, with which jars, and the folder `into` which it goes."""

    bootstrap: tuple[str, ...]
    run_id: str
    final_offsets: dict[str, FinalOffsets]
    jars: tuple[str, ...]
    into: str
