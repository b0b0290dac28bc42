"""Compares the settings of a scenario with those that its releases define, before anything starts.

The table of known releases says what they define. `scenarios check` has no jars of a release that Ebbtide does not
know, so it leaves names that no known release has to this module, which asks the release's own jars.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cluster.runtime.java_programs import defined_settings
from ebbtide.errors import UsageError
from ebbtide.releases.known_releases import parse_version
from ebbtide.scenario.absent_words import absent_word
from ebbtide.scenario.kafka_settings import KafkaSetting, Place, RefusedByKafka, refused_kind
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.validate_settings import ScenarioSetting, scenario_settings

_PROPERTIES = "properties of this release"

Defined = Mapping[tuple[Place, str], KafkaSetting]
"""What the jars of a release define."""


def check_settings(scenario: Scenario, note: Callable[[str], None]) -> tuple[ScenarioSetting, ...]:
    """Return the properties of nodes that the release of the run does not know, and that Kafka ignores.

    `scenario` names only the release that runs. Starts one JVM for each release that Ebbtide does not know and that
    gets a setting. Raises `RefusedByKafka` for settings that the jars do not define, or that no scenario may set.
    """
    settings = tuple(scenario_settings(scenario))
    defined: dict[str, Defined] = {}
    for kafka in dict.fromkeys(release for one in settings for release in one.unknown_releases):
        note(f"asking the jars of Kafka {kafka}, which Ebbtide does not know, for the settings that they define")
        defined[kafka] = {(one.place, one.name): one for one in defined_settings(kafka, lambda _: None)}
    if problems := [problem for one in settings if (problem := _problem(one, defined)) is not None]:
        what = f"settings that Kafka {', '.join(defined)} does not define, or that a scenario cannot have"
        raise RefusedByKafka(what, problems, allowed="settings that name no file, no class and no address")
    kafka = scenario.kafka[0]
    of_nodes = (one for one in settings if one.place == "node" and one.key is None)
    return tuple(one for one in of_nodes if not _is_known_to(kafka, one, defined.get(kafka)))


def unknown_properties_error(unknown: Sequence[ScenarioSetting]) -> RefusedByKafka:
    """Return the error for properties that the release of a run does not know. `unknown` has at least one."""
    names = ", ".join(one.name for one in unknown)
    problems = [UsageError(_sentence(one), where=one.where, allowed=_PROPERTIES) for one in unknown]
    what = f"Kafka does not know {names}, and ignores {'it' if len(unknown) == 1 else 'them'}"
    return RefusedByKafka(what, problems, allowed=_PROPERTIES)


def _problem(setting: ScenarioSetting, defined: Mapping[str, Defined]) -> UsageError | None:
    of_releases = [defined[kafka].get((setting.place, setting.name)) for kafka in setting.unknown_releases]
    found = [one for one in of_releases if one is not None]
    if of_releases and not found and setting.listed is None:
        return setting.unknown(with_hint=True)
    kinds = [refused_kind(setting.place, setting.name, one.type) for one in found]
    return next((setting.refused(kind) for kind in kinds if kind is not None), None)


def _is_known_to(kafka: str, setting: ScenarioSetting, defined: Defined | None) -> bool:
    if defined is not None:
        return (setting.place, setting.name) in defined
    return setting.listed is not None and setting.listed.why_absent([parse_version(kafka)]) is None


def _sentence(setting: ScenarioSetting) -> str:
    version = parse_version(setting.releases[0])
    listed = None if setting.listed is None else setting.listed.why_absent([version])
    why = [one for one in (listed, absent_word(setting.name, "properties")) if one is not None]
    return ": ".join([f"Kafka does not know {setting.name}, and ignores it", *why[-1:]])
