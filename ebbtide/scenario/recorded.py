"""The release of a recorded run, and the feature levels it asked for.

Kafka formats the storage with these levels.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ebbtide.errors import EbbtideError
from ebbtide.scenario.parse import load
from ebbtide.scenario.write import SCENARIO


def spelled(kafka: str, levels: Mapping[str, int]) -> str:
    """As it is typed: `4.0.2:eligible.leader.replicas.version=1`."""
    told = "+".join(f"{name}={level}" for name, level in sorted(levels.items()))
    return f"{kafka}:{told}" if told else kafka


def levels_asked(record: Path) -> Mapping[str, int]:
    """Return the feature levels that the scenario of a run record asks for.

    Returns none if the scenario is missing or cannot be read.
    """
    try:
        return load(record / SCENARIO).cluster.features
    except EbbtideError:
        return {}
