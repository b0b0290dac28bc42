"""Checks that a scenario is safe before a cluster is made of it.

Its names become paths, and its properties become files. `parse` includes these checks when
a cluster will be made. A run calls them for a scenario that was made without a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from ebbtide.errors import EbbtideError, Problems, UsageError
from ebbtide.releases.builds import is_build
from ebbtide.releases.known_releases import is_known, parse_version, published_releases
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.references import put_at
from ebbtide.scenario.steps.process import UpgradeStep
from ebbtide.scenario.validate_settings import validate_client_settings, validate_settings

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
TOPIC_MAX = 64
"""How many characters the name of a topic may have."""
_TOPIC = re.compile(rf"(?!\.{{1,2}}$)[A-Za-z0-9._-]{{1,{TOPIC_MAX}}}")


def check_name(name: str) -> None:
    """Raise `UsageError` unless a scenario may be called so."""
    if not _NAME.fullmatch(name):
        raise UsageError("not a scenario name", got=repr(name), allowed="a-z, 0-9 and -, 1 to 64 of them")


def validate_words(scenario: Scenario) -> Iterator[UsageError]:
    """Report the scenario's name, releases and ranges of releases that are none; other checks take them as they are."""
    yield from put_at("name", partial(check_name, scenario.name))
    for where, text in releases_of(scenario):
        yield from put_at(where, partial(parse_version, text))
    for index, prediction in enumerate(scenario.predictions):
        try:
            SpecifierSet(prediction.kafka)
        except InvalidSpecifier:
            where = f"predictions[{index}].kafka"
            allowed = "e.g. '>=3.7,<4.1'" + _meant_range(prediction.kafka)
            yield UsageError("not a version range", where=where, got=repr(prediction.kafka), allowed=allowed)


def releases_of(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Yield each release that a scenario names with its place in the file."""
    for index, text in enumerate(scenario.kafka):
        yield f"kafka[{index}]", text
    if scenario.cluster.formed_on is not None:
        yield "cluster.formed_on", scenario.cluster.formed_on
    for index, producer in enumerate(scenario.producers):
        if producer.client_kafka is not None:
            yield f"producers[{index}].client_kafka", producer.client_kafka
    for index, step in enumerate(scenario.steps):
        if isinstance(step, UpgradeStep):
            yield f"steps[{index}].to", step.to


def unknown_releases(scenario: Scenario) -> list[UsageError]:
    """Return a warning for each release of a valid scenario that Ebbtide does not know, and for each build.

    Only Maven's repository can say whether it exists. Any release may be named, because a newer one can work.
    """
    return [_unknown(where, release) for where, release in releases_of(scenario) if not is_known(release)]


def _unknown(where: str, release: str) -> UsageError:
    if is_build(release):
        what, next_ = "only hosts that have this build can run the scenario", "leave it out, and type --kafka JARS"
    else:
        what = "Ebbtide does not know this Kafka release; a run ends at once if Maven's repository does not have it"
        next_ = f"ebbtide kafka fetch {release}    (says whether it exists)"
    return UsageError(what, where=where, got=release, allowed=published_releases(release), next=next_)


def _meant_range(text: str) -> str:
    """Return in brackets the range that was probably meant: one release, or a range that lacks its commas."""
    is_release = re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+", text) is not None
    meant = f"=={text}" if is_release else re.sub(r"(?<=[0-9*]) +(?=[<>=!~])", ",", text)
    try:
        SpecifierSet(meant)
    except InvalidSpecifier:
        return ""
    return f" (did you mean '{meant}'?)"


def validate_topic_name(name: str, where: str) -> Iterator[UsageError]:
    """Report a name that no topic can have.

    `.` and `..` are among these names, as in Kafka.
    """
    if not _TOPIC.fullmatch(name):
        allowed = f"1 to {TOPIC_MAX} of A-Z a-z 0-9 . _ -, but not . or .."
        yield UsageError("not a topic name", where=where, got=repr(name), allowed=allowed)


def refuse_unsafe(scenario: Scenario) -> None:
    """Raise `Problems` if a run could write or start something outside its folder."""
    problems: list[EbbtideError] = [
        *validate_words(scenario),
        *validate_settings(scenario, to_run=True),
        *validate_client_settings(scenario),
    ]
    for name in scenario.topics:
        problems += validate_topic_name(name, f"topics.{name}")
    if problems:
        raise Problems("the scenario", problems)
