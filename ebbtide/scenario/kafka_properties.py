"""What Kafka does with a property of a node: who obeys it, and which topic config it is the default of.

`kafka_properties.toml` has what Kafka's sources say, and `kafka_settings.txt` what its classes say.
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Literal

import msgspec

from ebbtide.scenario.kafka_settings import is_among, settings_at

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
