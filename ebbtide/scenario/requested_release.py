"""The release of a recorded run, and the feature levels it asked for.

Kafka formats the storage with these levels.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ebbtide.errors import EbbtideError
from ebbtide.scenario.parse import load
from ebbtide.scenario.write import SCENARIO


def spell_release(kafka: str, levels: Mapping[str, int]) -> str:
    """Return the release as it is typed: `4.0.2:eligible.leader.replicas.version=1`."""
    features = "+".join(f"{name}={level}" for name, level in sorted(levels.items()))
    return f"{kafka}:{features}" if features else kafka


def requested_levels(record: Path) -> Mapping[str, int]:
    """Return the feature levels that the scenario of a run record asks for.

    Returns none if the scenario is missing or cannot be read.
    """
    try:
        return load(record / SCENARIO).cluster.features
    except EbbtideError:
        return {}
