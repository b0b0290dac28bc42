"""Recorded runs of the catalogue on real Kafka, packed.

A pack has what each node and client left, without what judging wrote.
"""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

from checkout import DATA

_PACKED = DATA / "whole"

NAMES = tuple(sorted(path.name.removesuffix(".tar.xz") for path in _PACKED.glob("*.tar.xz")))
"""`SCENARIO-RELEASE` of each."""


KNOWN_TRUTHS = DATA / "known-truth"
"""Packed records of simulated clusters whose truth is known."""

OF_GROUPS = DATA / "groups"
"""Packed runs on real Kafka in which a group left out records: only what the clients and the metadata log said."""


def unpack_record(name: str, to: Path, packs: Path = _PACKED) -> Path:
    """The record `name`, unpacked into the folder `to`."""
    # Python before 3.11.4 has no filters; newer ones want one named.
    filtered: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    with tarfile.open(packs / f"{name}.tar.xz") as packed:
        packed.extractall(to, **filtered)
    return to / name
