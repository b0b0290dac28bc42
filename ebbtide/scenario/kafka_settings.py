"""The settings that Kafka and its client libraries define, and those of them that a scenario cannot set.

Two files have them. `kafka_settings.txt` is what the releases themselves say. `refused_settings.toml` is reviewed: it
has the kinds of settings that no scenario may set, each with the reason.

What a scenario may ask of each client library: its name, and what it cannot do.

`kafka_properties.toml` has what Kafka's sources say of the properties of a node: who obeys one, and which topic config
it is the default of.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Literal, cast

import msgspec
from packaging.version import Version

from ebbtide.errors import EbbtideError, Problems, UsageError
from ebbtide.releases.known_releases import KNOWN
from ebbtide.scenario.line_numbers import add_lines
from ebbtide.untrusted.values import decode_toml

Place = Literal[
    "node", "topic", "producer", "librdkafka", "librdkafka-consumer", "kafka-python", "kafka-python-consumer"
]
"""Where a setting is set: on a broker or controller, on a topic, in a producer (Kafka's own, or that of a library), or
in a library's consumer."""

OF_RELEASES: tuple[Place, ...] = ("node", "topic", "producer")
"""Places whose settings belong to a release of Kafka; those of the others belong to the installed library."""

WHOLE_NUMBERS, FRACTIONS = ("int", "long", "short", "integer"), ("double", "float")
_FREE_TYPES = frozenset({"boolean", "enum", *WHOLE_NUMBERS, *FRACTIONS})
"""Values of these types name no file, no code and no address."""

REFERENCE = "${"
"""What begins a reference in a value. Kafka's config providers read its value from a file or a variable."""


class KafkaSetting(msgspec.Struct, frozen=True):
    """A setting, its type in the words of Kafka or librdkafka, and the first and the last known release with it.

    `defaults`: of a topic's setting, the properties of nodes that are its default, in the order in which Kafka reads
    them.
    """

    place: Place
    name: str
    type: str
    first: str
    last: str
    defaults: tuple[str, ...] = ()

    @property
    def removed_in(self) -> str | None:
        """The first known release that no longer has the setting; None if the newest one has it."""
        later = [one.version for one in KNOWN if Version(one.version) > Version(self.last)]
        return later[0] if later and self.place in OF_RELEASES else None

    def why_absent(self, versions: Sequence[Version]) -> str | None:
        """Return why none of these releases has the setting; None if one may have it, or if there are none."""
        if versions and (removed := self.removed_in) is not None and min(versions) >= Version(removed):
            return f"Kafka {removed} removed it"
        return f"Kafka has it from {self.first} on" if versions and max(versions) < Version(self.first) else None

    def line(self) -> str:
        """Return the setting's line of the table."""
        return " ".join((self.place, self.name, self.type, self.first, self.last, *self.defaults))

    @classmethod
    def of_line(cls, line: str) -> KafkaSetting:
        """Return the setting of such a line."""
        place, name, type_, first, last, *defaults = line.split()
        return cls(cast(Place, place), name, type_, first, last, tuple(defaults))


_OF_PLACES = {
    "librdkafka_consumer": "librdkafka-consumer",
    "kafka_python": "kafka-python",
    "kafka_python_consumer": "kafka-python-consumer",
}
"""The places of `RefusedKind` whose names have a dash."""


class RefusedKind(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename=_OF_PLACES):
    """A kind of settings that no scenario may set.

    - `why`: ends the sentence "a scenario cannot set this: ...".
    - `instead`: what is allowed.
    - `types`: every setting of these types is of this kind.
    - `node` and the other places: names of settings there, and patterns with `*`.
    - `of_records`: the scenario of a record that is only judged cannot have them either.
    """

    kind: str
    why: str
    instead: str
    of_records: bool = False
    types: frozenset[str] = frozenset()
    node: tuple[str, ...] = ()
    topic: tuple[str, ...] = ()
    producer: tuple[str, ...] = ()
    librdkafka: tuple[str, ...] = ()
    librdkafka_consumer: tuple[str, ...] = ()
    kafka_python: tuple[str, ...] = ()
    kafka_python_consumer: tuple[str, ...] = ()

    def names(self, place: Place) -> tuple[str, ...]:
        """The names and patterns of a place."""
        return cast(tuple[str, ...], getattr(self, place.replace("-", "_")))


class _Review(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    texts: dict[Place, tuple[str, ...]]
    refused: tuple[RefusedKind, ...]


@cache
def settings_at(place: Place) -> Mapping[str, KafkaSetting]:
    """Return the settings of a place that a known release has, by name."""
    lines = (files("ebbtide.scenario") / "kafka_settings.txt").read_text("utf-8").splitlines()
    rows = (KafkaSetting.of_line(line) for line in lines if line.startswith(f"{place} "))
    return {one.name: one for one in rows}


def is_numeric(place: Place, name: str) -> bool:
    """Whether the values of a setting are numbers."""
    return (known := settings_at(place).get(name)) is not None and known.type in (*WHOLE_NUMBERS, *FRACTIONS)


@cache
def _review() -> _Review:
    text = (files("ebbtide.scenario") / "refused_settings.toml").read_text("utf-8")
    return msgspec.convert(decode_toml(text), _Review)


def refused_kinds() -> tuple[RefusedKind, ...]:
    """Return the reviewed kinds; the last one is of settings that nobody reviewed."""
    return _review().refused


def refused_kind(place: Place, name: str, type_: str | None = None) -> RefusedKind | None:
    """Return the kind for which a scenario cannot set a setting; None for one that it can.

    `type_`: its type in the jars that read it, if the table does not say. A setting whose value is a text, and that
    nobody reviewed, is refused: no pattern of names can say what Kafka does with it.
    """
    known = settings_at(place).get(name)
    type_ = type_ or (None if known is None else known.type)
    for kind in refused_kinds():
        if type_ in kind.types or is_among(name, kind.names(place)):
            return kind
    if type_ is None or type_ in _FREE_TYPES or name in _review().texts.get(place, ()):
        return None
    return refused_kinds()[-1]


def is_among(name: str, patterns: Iterable[str]) -> bool:
    """Whether a name is one of these, or matches one that ends in `*`."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


class RefusedByKafka(UsageError):
    """Settings that Kafka does not know or refuses.

    `problems` has them one by one, each with its key as `where`. The code that runs a scenario does not know its file.
    So the verb that read the file finds the lines.
    """

    def __init__(
        self,
        what: str,
        problems: Sequence[EbbtideError],
        *,
        allowed: str,
        next: str = "correct the scenario file, and run it again",
    ) -> None:
        self.problems = tuple(problems)
        places = dict.fromkeys(one.where for one in problems if one.where is not None)
        super().__init__(what, where=", ".join(places), allowed=allowed, next=next)

    def in_file(self, file: str, text: str, next: str) -> Problems:
        """Return the same as an error of the scenario file with this text, with lines.

        `next` is the command to type once the file is right.
        """
        add_lines(text, self.problems)
        return Problems(file, [*self.problems], next=next)


def allowed_or_near(allowed: str, near: Iterable[str]) -> str:
    """Return what is allowed, with the names that were probably meant; empty ones do not count."""
    meant = ", ".join(one for one in near if one)
    return allowed + (f" (did you mean {meant}?)" if meant else "")


ClientLibrary = Literal["kafka-python", "librdkafka", "java"]
"""`librdkafka` is used through confluent-kafka, `java` through a Java program of Ebbtide's."""

ConsumerLibrary = Literal["kafka-python", "librdkafka"]
"""The libraries that can also read."""

GroupProtocol = Literal["classic", "consumer"]
"""How a group shares its partitions: `consumer` is that of KIP-848, in which the coordinator assigns them."""

DEFAULT_LIBRARY: Literal["kafka-python"] = "kafka-python"
DEFAULT_GROUP_PROTOCOL: GroupProtocol = "classic"
OTHER_LIBRARIES: tuple[ClientLibrary, ...] = ("librdkafka", "java")


class LibraryFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a library's clients take and lack.

    - `settings`: the place of its producer's settings in `kafka_settings.txt`. `consumer_settings`: of its consumer's.
    - `unsupported`: keys of a producer that the library's process cannot carry out, each with the reason.
    """

    settings: Place
    consumer_settings: Place | None = None
    unsupported: dict[str, str] = {}


_NO_TRANSACTIONS = "transactions are sent with kafka-python and java only"
_TRANSACTION_KEYS = ("transactional", "txn_records", "abort_every", "fence_every", "abort_unacked")

LIBRARIES: dict[ClientLibrary, LibraryFacts] = {
    "kafka-python": LibraryFacts(settings="kafka-python", consumer_settings="kafka-python-consumer"),
    "librdkafka": LibraryFacts(
        settings="librdkafka",
        consumer_settings="librdkafka-consumer",
        unsupported=dict.fromkeys(_TRANSACTION_KEYS, _NO_TRANSACTIONS),
    ),
    "java": LibraryFacts(settings="producer"),
}


Obeyer = Literal["brokers", "controllers", "nobody"]


class KafkaProperties(msgspec.Struct, frozen=True, kw_only=True):
    """The first table, and the topic defaults of the second.

    - `topic_defaults`: by property, the topic config whose default it is, in the order in which Kafka reads them.
    - `topic_keys`: by property, the key of a scenario's topic that has a default of its own.
    - `effects_of_their_own`: topic defaults that Kafka also reads for something else.
    - `auto_created`: what brokers read only when a client asks for a topic that is not there.
    - `internal_topics`: by Kafka's own topics, the properties by which brokers create them.
    - `obeyed_by`: who reads a property, if not every node that has it.
    """

    topic_defaults: dict[str, str]
    topic_keys: dict[str, str]
    effects_of_their_own: frozenset[str]
    auto_created: frozenset[str]
    internal_topics: dict[str, tuple[str, ...]]
    obeyed_by: dict[Obeyer, tuple[str, ...]]

    def obeyer_of(self, name: str) -> Obeyer | None:
        """Return who alone obeys a property; None if every node may, or if that is not known."""
        return next((obeyer for obeyer, names in self.obeyed_by.items() if is_among(name, names)), None)

    def read_before(self, name: str) -> list[str]:
        """Return the properties that Kafka reads instead of this one where they are set."""
        config = self.topic_defaults.get(name)
        if config is None or name in self.effects_of_their_own:
            return []
        alike = [other for other, of in self.topic_defaults.items() if of == config]
        return alike[: alike.index(name)]

    def place_of(self, name: str, value: str) -> str:
        """Return the line of a scenario file that does what a line of a server.properties does."""
        if (key := self.topic_keys.get(name)) is not None:
            return f"{key} = {value} under [topics.NAME]"
        role = "controller" if self.obeyer_of(name) == "controllers" else "broker"
        return f'{role}_properties = {{ "{name}" = "{value}" }} under [cluster]'


@cache
def kafka_properties() -> KafkaProperties:
    """Return the tables."""
    table = tomllib.loads((files("ebbtide.scenario") / "kafka_properties.toml").read_text("utf-8"))
    defaults = {name: one.name for one in settings_at("topic").values() for name in one.defaults}
    return msgspec.convert({**table, "topic_defaults": defaults}, KafkaProperties)
