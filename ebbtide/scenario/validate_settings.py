"""Validates the settings of Kafka and of client libraries that a scenario sets.

They are the properties of nodes, the configs of topics, what `set-config` steps change, and the properties of
clients. A scenario or a record may come from somebody else, and Kafka may run as root. So a scenario sets only what
a known release defines, less the kinds in `refused_settings.toml`, and no value refers to a file or a variable.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from ebbtide.errors import UsageError
from ebbtide.properties_file import is_writable
from ebbtide.releases.known_releases import is_known
from ebbtide.scenario.absent_words import absent_word
from ebbtide.scenario.kafka_settings import (
    FRACTIONS,
    LIBRARIES,
    OF_RELEASES,
    REFERENCE,
    WHOLE_NUMBERS,
    KafkaSetting,
    Place,
    RefusedKind,
    allowed_or_near,
    refused_kind,
    settings_at,
)
from ebbtide.scenario.key_places import kafka_name_hint
from ebbtide.scenario.model import NODE_ROLES, ConsumerSpec, ProducerSpec, Scenario
from ebbtide.scenario.steps.admin import SetConfigStep
from ebbtide.shown_text import HIDDEN, names_secret
from ebbtide.suggestions import nearest_words

_NODE_NAME = re.compile(r"[^\s=:#!\\]+")
_VALUES: Mapping[str, tuple[re.Pattern[str], str]] = {
    "boolean": (re.compile("true|false"), "true or false"),
    **dict.fromkeys(WHOLE_NUMBERS, (re.compile(r"-?[0-9]{1,18}"), "a whole number, such as 30000")),
    **dict.fromkeys(FRACTIONS, (re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?"), "a number, such as 0.5")),
}
"""By type, what a client's setting may be. A value of a node or topic is refused here if it is empty, else by Kafka."""
_HINTS_MAX = 10
"""For so many unknown names of a file the nearest known name is looked up."""
_SETTINGS: Mapping[Place, str] = {
    "node": "properties of Kafka's nodes",
    "topic": "configs of Kafka's topics",
    "producer": "settings of Kafka's producer",
    "librdkafka": "settings of librdkafka's producer",
    "librdkafka-consumer": "settings of librdkafka's consumer",
    "kafka-python": "settings of kafka-python's producer",
    "kafka-python-consumer": "settings of kafka-python's consumer",
}
_ABSENT_AT: Mapping[Place, tuple[str, ...]] = {
    "node": ("properties",),
    "topic": (),
    "producer": ("java", "settings"),
    "librdkafka": ("librdkafka", "settings"),
    "librdkafka-consumer": ("librdkafka", "settings"),
    "kafka-python": ("kafka-python", "settings"),
    "kafka-python-consumer": ("kafka-python", "settings"),
}
"""By place, where `absent_words.toml` has the words that people type there."""


class ScenarioSetting(msgspec.Struct, frozen=True, kw_only=True):
    """A setting that a scenario sets, and the releases of Kafka that get it.

    `table`: the table of the file that has it. `value`: None for a config that is deleted. `to_be_refused`: the
    scenario expects Kafka to refuse it.
    """

    place: Place
    table: str
    name: str
    value: str | None
    releases: tuple[str, ...]
    key: str | None = None
    to_be_refused: bool = False

    @property
    def where(self) -> str:
        """The setting's place in the file."""
        return f"{self.table}.{self.key or self.name}"

    @property
    def shown_value(self) -> str:
        """The value as messages show it."""
        return HIDDEN if names_secret(self.name) else repr(self.value)

    @property
    def listed(self) -> KafkaSetting | None:
        """The setting as known releases have it; None if none has it."""
        return settings_at(self.place).get(self.name)

    @property
    def unknown_releases(self) -> tuple[str, ...]:
        """The releases that get it and that Ebbtide does not know: only their jars say what it is there."""
        return tuple(one for one in self.releases if not is_known(one)) if self.place in OF_RELEASES else ()

    @property
    def is_of_client(self) -> bool:
        """Whether a client gets the setting, and no node."""
        return self.place not in ("node", "topic")

    def refused(self, kind: RefusedKind) -> UsageError:
        """Return the error for a setting of a kind that no scenario may set."""
        hint = self._hint()
        what = f"a setting that a scenario cannot have: {kind.why}" + ("" if hint is None else f" ({hint})")
        return UsageError(what, where=self.where, got=self.name, allowed=kind.instead)

    def unknown(self, *, with_hint: bool) -> UsageError:
        """Return the error for a name that no known release defines."""
        library = "Kafka" if self.place in OF_RELEASES else self.place.removesuffix("-consumer")
        hint = self._hint()
        what = f"no setting of {library} that Ebbtide knows" + ("" if hint is None else f": {hint}")
        allowed = allowed_or_near(_SETTINGS[self.place], self._near() if with_hint else ())
        return UsageError(what, where=self.where, got=self.name, allowed=allowed)

    def _hint(self) -> str | None:
        """Return what the name is called here, or what comes closest."""
        client = ConsumerSpec if self.place.endswith("-consumer") else ProducerSpec
        if self.is_of_client and (hint := kafka_name_hint(self.name, client.__struct_fields__)) is not None:
            return f"{hint}, beside properties"
        return absent_word(self.name, *_ABSENT_AT[self.place])

    def _near(self) -> Sequence[str]:
        of_topics = settings_at("topic")
        if self.place == "node" and self.name in of_topics:
            return of_topics[self.name].defaults[:1]
        meant = [one.name for one in of_topics.values() if self.place == "topic" and self.name in one.defaults]
        return meant or nearest_words(self.name, settings_at(self.place), most=1)


def scenario_settings(scenario: Scenario) -> Iterator[ScenarioSetting]:
    """Yield every setting of a scenario."""
    yield from _of_cluster(scenario)
    yield from _of_clients(scenario)


def _of_cluster(scenario: Scenario) -> Iterator[ScenarioSetting]:
    """Yield the settings of nodes and topics, and those that steps change."""
    releases = _releases(scenario)
    tables: list[tuple[Place, str, Mapping[str, str]]] = [
        ("node", f"cluster.{role}_properties", scenario.cluster.properties_of(role)) for role in NODE_ROLES
    ]
    tables += [("topic", f"topics.{name}.config", topic.config) for name, topic in scenario.topics.items()]
    for place, table, values in tables:
        for name, value in values.items():
            yield ScenarioSetting(place=place, table=table, name=name, value=value, releases=releases)
    for index, step in enumerate(scenario.steps):
        if isinstance(step, SetConfigStep):
            yield ScenarioSetting(
                place="node" if step.resource.topic is None else "topic",
                table=f"steps[{index}]",
                key="config",
                name=step.config,
                value=step.value,
                releases=releases,
                to_be_refused=step.expect_error is not None,
            )


def _of_clients(scenario: Scenario) -> Iterator[ScenarioSetting]:
    releases = _releases(scenario)
    for index, consumer in enumerate(scenario.consumers):
        place = LIBRARIES[consumer.library].consumer_settings
        for name, value in (consumer.properties or {}).items():
            assert place is not None
            table = f"consumers[{index}].properties"
            yield ScenarioSetting(place=place, table=table, name=name, value=value, releases=releases)
    for index, producer in enumerate(scenario.producers):
        for name, value in (producer.properties or {}).items():
            yield ScenarioSetting(
                place=LIBRARIES[producer.library].settings,
                table=f"producers[{index}].properties",
                name=name,
                value=value,
                releases=releases if producer.client_kafka is None else (producer.client_kafka,),
            )


def _releases(scenario: Scenario) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*scenario.kafka, *scenario.other_releases)))


def validate_settings(scenario: Scenario, *, to_run: bool) -> Iterator[UsageError]:
    """Report the settings that nodes and topics cannot have.

    Without `to_run` it reports only what makes a record unclear: several properties in one, and properties that tie a
    node to another place. Judging a finished record starts nothing, so it takes the others.
    """
    for problem, of_records in _problems(_of_cluster(scenario)):
        if to_run or of_records:
            yield problem


def validate_client_settings(scenario: Scenario) -> Iterator[UsageError]:
    """Report the settings that producers and consumers cannot have."""
    return (problem for problem, _ in _problems(_of_clients(scenario)))


def _problems(settings: Iterable[ScenarioSetting]) -> Iterator[tuple[UsageError, bool]]:
    """Yield what is wrong with each setting, and whether the scenario of a record cannot have it either."""
    unknown = 0
    for setting in settings:
        kind = refused_kind(setting.place, setting.name)
        if (problem := _malformed(setting)) is not None:
            yield problem, True
        elif kind is not None:
            yield setting.refused(kind), kind.of_records
        elif setting.listed is None and not setting.unknown_releases:
            unknown += 1
            yield setting.unknown(with_hint=unknown <= _HINTS_MAX), False
        elif (problem := _wrong_value(setting)) is not None:
            yield problem, False


def _malformed(setting: ScenarioSetting) -> UsageError | None:
    """Return the error for a name that is not one name, or a value that a .properties file cannot hold."""
    if setting.place == "topic" or setting.key is not None:
        return None
    name = setting.name
    if not (_NODE_NAME.fullmatch(name) and name.isascii() and name.isprintable()):
        allowed = "ASCII without blanks, and without = : # ! \\"
        return UsageError("not a property's name", where=setting.table, got=repr(name), allowed=allowed)
    if not is_writable(setting.value or ""):
        allowed = "one line, without control characters"
        return UsageError("not a property's value", where=setting.where, got=setting.shown_value, allowed=allowed)
    return None


def _wrong_value(setting: ScenarioSetting) -> UsageError | None:
    value = setting.value or ""
    where = setting.where if setting.key is None else f"{setting.table}.value"
    if REFERENCE in value:
        what = "a value that refers to a file or a variable of the host"
        return UsageError(what, where=where, got=setting.shown_value, allowed=f"the value itself, without {REFERENCE}")
    wanted = _VALUES.get("" if setting.listed is None else setting.listed.type)
    is_checked = setting.is_of_client or (setting.value == "" and not setting.to_be_refused)
    if wanted is None or not is_checked or wanted[0].fullmatch(value):
        return None
    return UsageError("not a value of this setting", where=where, got=repr(value), allowed=wanted[1])
