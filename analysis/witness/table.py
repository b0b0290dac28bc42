"""The configuration and the results of the witness.

The results are witness/: a folder of Parquet, and `problem.txt` where the connector could not read.
"""

from __future__ import annotations

import msgspec

from ebbtide.record.manifest import FinalOffsets

PROBLEM = "problem.txt"


class WitnessConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What to read, with which jars, and the folder `into` which it is written."""

    bootstrap: tuple[str, ...]
    run_id: str
    final_offsets: dict[str, FinalOffsets]
    jars: tuple[str, ...]
    into: str
