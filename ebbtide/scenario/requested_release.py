"""The feature levels that a recorded run asked for: Kafka formats the storage with them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ebbtide.errors import EbbtideError
from ebbtide.scenario.parse import load


def requested_levels(scenario: Path) -> Mapping[str, int]:
    """Return the feature levels that a scenario file asks for.

    Returns none if the file is missing or cannot be read.
    """
    try:
        return load(scenario).cluster.features
    except EbbtideError:
        return {}
