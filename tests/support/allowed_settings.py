"""The settings that a scenario can set."""

from __future__ import annotations

from collections.abc import Mapping

from ebbtide.scenario.kafka_settings import KafkaSetting, Place, refused_kind, settings_at


def allowed_settings(place: Place) -> Mapping[str, KafkaSetting]:
    """Return the settings of a place that a scenario can set."""
    return {name: one for name, one in settings_at(place).items() if refused_kind(place, name) is None}
