"""The feature levels that a recorded run asked for: Kafka formats the storage with them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ebbtide.errors import EbbtideError
from ebbtide.scenario.parse import load
from ebbtide.scenario.write import SCENARIO


def requested_levels(record: Path) -> Mapping[str, int]:
    """Return the feature levels that the scenario of a run record asks for.

    Returns none if the scenario is missing or cannot be read.
    """
    try:
        return load(record / SCENARIO).cluster.features
    except EbbtideError:
        return {}
