"""The table of topic defaults against Kafka's own classes."""

from __future__ import annotations

import pytest

from cluster.jars.releases import ensure
from ebbtide.scenario.kafka_properties import kafka_properties
from tools.topic_defaults import topic_defaults_of

pytestmark = [pytest.mark.live, pytest.mark.beside]


@pytest.mark.parametrize("kafka", ["3.9.1", "4.3.1"])
def test_the_table_has_the_topic_defaults_of_a_release_in_its_order(kafka: str) -> None:
    ensure([kafka])
    of_release = topic_defaults_of(kafka)
    known = kafka_properties().topic_defaults
    assert {name: known.get(name) for name in of_release} == of_release
    for config in set(of_release.values()):
        ours, theirs = ([one for one, of in table.items() if of == config] for table in (known, of_release))
        assert [one for one in ours if one in theirs] == theirs
