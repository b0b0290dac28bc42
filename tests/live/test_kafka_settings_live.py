"""The table of settings against the jars of Kafka releases, and against librdkafka."""

from __future__ import annotations

import confluent_kafka
import pytest
from allowed_settings import allowed_settings

from cluster.jars.releases import cached_releases
from cluster.runtime.java_programs import defined_settings
from ebbtide.releases.known_releases import is_known, parse_version
from ebbtide.scenario.kafka_settings import Place, settings_at
from tools.kafka_settings import librdkafka_settings

pytestmark = [pytest.mark.live, pytest.mark.beside]

FREE = {"boolean", "double", "int", "long", "short"}


RELEASES = {"3.9.1", "4.3.1", *(one.version for one in cached_releases() if is_known(one.version))}
"""Two of them, and what this host has besides."""


@pytest.mark.parametrize(
    "kafka", [*(pytest.param(one, marks=pytest.mark.slow) for one in sorted(RELEASES)[:-1]), max(RELEASES)]
)
def test_the_table_has_the_settings_that_a_release_defines(kafka: str) -> None:
    defined = defined_settings(kafka, lambda _: None)
    version = parse_version(kafka)
    listed = {
        (one.place, one.name)
        for place in ("node", "topic", "producer")
        for one in settings_at(place).values()
        if parse_version(one.first) <= version <= parse_version(one.last)
    }
    assert {(one.place, one.name) for one in defined} == listed
    for one in defined:
        row = settings_at(one.place)[one.name]
        assert one.type in FREE or row.type not in FREE, f"{one.name} is a text in Kafka {kafka}"
        assert [name for name in row.defaults if name in one.defaults] == list(one.defaults)


@pytest.mark.parametrize("place", ["librdkafka", "librdkafka-consumer"])
def test_librdkafka_has_every_setting_that_a_scenario_may_set(place: Place) -> None:
    names = {one.name for one in librdkafka_settings() if one.place == place}
    assert allowed_settings(place).keys() <= names
    if settings_at(place)["client.id"].first == confluent_kafka.libversion()[0]:
        assert settings_at(place).keys() == names
