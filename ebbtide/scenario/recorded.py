"""What a recorded run ran on: the release, and the feature levels that it was asked to format with."""

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
    """The feature levels that the scenario of a run record asks for; none where it is not there, or cannot be read."""
    try:
        return load(record / SCENARIO).cluster.features
    except EbbtideError:
        return {}
