"""Asks the jars of releases that Ebbtide does not know about the settings of a scenario, before anything starts.

`validate` has no jars at hand. It takes such a release for the newest known one, and leaves names that no known release
has to this module.
"""

from __future__ import annotations

from collections.abc import Callable

from cluster.runtime.kafka_settings import defined_settings
from ebbtide.errors import UsageError
from ebbtide.scenario.kafka_settings import KafkaSetting, Place, refused_kind
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.parts import Parts
from ebbtide.scenario.refused_settings import RefusedByKafka
from ebbtide.scenario.validate_settings import ScenarioSetting, scenario_settings


def refuse_by_jars(scenario: Scenario, note: Callable[[str], None]) -> None:
    """Raise `RefusedByKafka` for settings that an unknown release does not define, or that no scenario may set.

    `scenario` names only the release that runs. Starts one JVM for each unknown release that gets a setting.
    """
    settings = [one for one in scenario_settings(Parts.of(scenario)) if one.unknown_releases]
    defined: dict[str, dict[tuple[Place, str], KafkaSetting]] = {}
    for kafka in dict.fromkeys(release for one in settings for release in one.unknown_releases):
        note(f"asking the jars of Kafka {kafka}, which Ebbtide does not know, for the settings that they define")
        defined[kafka] = {(one.place, one.name): one for one in defined_settings(kafka, lambda _: None)}
    problems = [problem for one in settings if (problem := _problem(one, defined)) is not None]
    if problems:
        what = f"settings that Kafka {', '.join(defined)} does not define, or that a scenario cannot have"
        raise RefusedByKafka(what, problems, allowed="settings that name no file, no class and no address")


def _problem(setting: ScenarioSetting, defined: dict[str, dict[tuple[Place, str], KafkaSetting]]) -> UsageError | None:
    of_releases = [defined[kafka].get((setting.place, setting.name)) for kafka in setting.unknown_releases]
    found = [one for one in of_releases if one is not None]
    if not found and setting.listed is None:
        return setting.unknown(with_hint=True)
    kinds = [refused_kind(setting.place, setting.name, one.type) for one in found]
    return next((setting.refused(kind) for kind in kinds if kind is not None), None)
