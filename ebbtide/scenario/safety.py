"""Checks that a scenario is safe before a cluster is made of it.

Its names become paths, and its properties become files. `parse` includes these checks when
a cluster will be made. A run calls them for a scenario that was made without a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from ebbtide.errors import EbbtideError, Problems, UsageError
from ebbtide.releases.known_releases import parse_version
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.parts import Parts, TablePart
from ebbtide.scenario.references import put_at
from ebbtide.scenario.steps.process import UpgradeStep
from ebbtide.scenario.validate_libraries import validate_client_kafka
from ebbtide.scenario.validate_settings import validate_producer_settings, validate_settings

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
TOPIC_MAX = 64
"""How many characters the name of a topic may have."""
_TOPIC = re.compile(rf"(?!\.{{1,2}}$)[A-Za-z0-9._-]{{1,{TOPIC_MAX}}}")


def check_name(name: str) -> None:
    """Raise `UsageError` unless a scenario may be called so."""
    if not _NAME.fullmatch(name):
        raise UsageError("not a scenario name", got=repr(name), allowed="a-z, 0-9 and -, 1 to 64 of them")


def validate_topic_name(name: str, where: str) -> Iterator[UsageError]:
    """Report a name that no topic can have.

    `.` and `..` are among these names, as in Kafka.
    """
    if not _TOPIC.fullmatch(name):
        allowed = f"1 to {TOPIC_MAX} of A-Z a-z 0-9 . _ -, but not . or .."
        yield UsageError("not a topic name", where=where, got=repr(name), allowed=allowed)


def refuse_unsafe(scenario: Scenario) -> None:
    """Raise `Problems` if a run could write or start something outside its folder."""
    problems: list[EbbtideError] = [*put_at("name", partial(check_name, scenario.name))]
    for index, text in enumerate(scenario.kafka):
        problems += put_at(f"kafka[{index}]", partial(parse_version, text))
    if scenario.cluster.formed_on is not None:
        problems += put_at("cluster.formed_on", partial(parse_version, scenario.cluster.formed_on))
    for index, step in enumerate(scenario.steps):
        if isinstance(step, UpgradeStep):
            problems += put_at(f"steps[{index}].to", partial(parse_version, step.to))
    for index, producer in enumerate(scenario.producers):
        problems += validate_client_kafka(TablePart.of(producer), f"producers[{index}]")
    parts = Parts.of(scenario)
    problems += validate_settings(parts, to_run=True)
    problems += validate_producer_settings(parts)
    for name in scenario.topics:
        problems += validate_topic_name(name, f"topics.{name}")
    if problems:
        raise Problems("the scenario", problems)
