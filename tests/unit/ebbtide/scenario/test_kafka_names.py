"""A name of Kafka where a key of Ebbtide's belongs: the error says how the scenario file spells it."""

from __future__ import annotations

import pytest

from ebbtide.errors import Problems
from ebbtide.scenario import catalogue
from ebbtide.scenario.kafka_names import _KEYS
from ebbtide.scenario.key_places import place_of_key
from ebbtide.scenario.parse import parse

HEALTHY = catalogue.text_of("healthy")
CLUSTER = HEALTHY.replace("[topics.t]", "[cluster]\n#here\n[topics.t]")


def message_with(line: str, table: str) -> str:
    """Return the one error of a file that has this line first in a table."""
    text = CLUSTER.replace(f"{table}\n", f"{table}\n{line}\n", 1)
    with pytest.raises(Problems) as caught:
        parse(text, file="s.toml")
    (found,) = (one.render() for one in caught.value.problems)
    return found


def problem_with(line: str, table: str) -> str:
    """Return the sentence of that error."""
    return message_with(line, table).splitlines()[0]


@pytest.mark.parametrize(
    ("table", "name", "key"),
    [
        ("[topics.t]", "min.insync.replicas", "min_isr"),
        ("[topics.t]", "replication.factor", "replication_factor"),
        ("[[producers]]", "linger.ms", "linger_ms"),
        ("[[producers]]", "enable.idempotence", "idempotent"),
        ("[[consumers]]", "auto.offset.reset", "auto_offset_reset"),
        ("[cluster]", "broker.session.timeout.ms", "session_timeout_s"),
    ],
)
def test_a_name_of_kafka_is_reported_with_the_key_that_means_it(table: str, name: str, key: str) -> None:
    for written in (f'"{name}"', name):
        assert problem_with(f"{written} = 2", table) == f"unknown key: Kafka's {name} is {key} here"


@pytest.mark.parametrize(
    ("table", "name", "key"), [("[topics.t]", "min_insync_replicas", "min_isr"), ("[[consumers]]", "group_id", "group")]
)
def test_a_name_of_kafka_with_underscores_is_reported_with_the_key_that_means_it(
    table: str, name: str, key: str
) -> None:
    assert problem_with(f"{name} = 2", table) == f"unknown key: Kafka's {name.replace('_', '.')} is {key} here"


@pytest.mark.parametrize(
    ("table", "name", "tables", "first"),
    [
        ("[topics.t]", "retention.ms", "config", "config"),
        ("[[producers]]", "socket.timeout.ms", "properties", "properties"),
        ("[cluster]", "log.flush.interval.ms", "broker_properties or controller_properties", "broker_properties"),
        ("[cluster]", "num.io.threads", "broker_properties or controller_properties", "broker_properties"),
    ],
)
def test_any_other_name_of_kafka_is_reported_with_the_table_of_such_names(
    table: str, name: str, tables: str, first: str
) -> None:
    hint = f'Kafka\'s names belong in {tables}: {first} = {{ "{name}" = ... }}'
    for written in (f'"{name}"', name):
        assert problem_with(f"{written} = 2", table) == f"unknown key: {hint}"


@pytest.mark.parametrize(
    ("table", "name", "key"),
    [
        ("[[consumers]]", "group.id", "group"),
        ("[[consumers]]", "isolation.level", "isolation"),
        ("[[producers]]", "compression.type", "compression"),
        ("[[producers]]", "transactional.id", "transactional"),
    ],
)
def test_a_name_of_kafka_that_begins_like_the_key_is_reported_with_it(table: str, name: str, key: str) -> None:
    assert problem_with(f'"{name}" = 2', table) == f"unknown key: Kafka's {name} is {key} here"
    assert f"(Kafka's {name} is {key} here)" in message_with(f"{name} = 2", table)


def test_a_table_without_kafkas_names_only_says_that_the_key_is_unknown() -> None:
    assert problem_with('"client.rack" = 2', "[[consumers]]") == "unknown key"


@pytest.mark.parametrize(
    ("table", "line", "meant"),
    [
        ("[topics.t]", 'configs = { "retention.ms" = "9" }', "config"),
        ("[topics.t]", "configs.retention.ms = '9'", "config"),
        ("[cluster]", 'broker_property = { "log.flush.interval.ms" = "9" }', "broker_properties"),
        ("[cluster]", 'controller = { "log.flush.interval.ms" = "9" }', "controller_properties"),
        ("[cluster]", 'feature = { "metadata.version" = 21 }', "features"),
        ("[[producers]]", 'propertis = { "retry.backoff.ms" = "9" }', "properties"),
    ],
)
def test_a_misspelt_table_is_no_name_of_kafka(table: str, line: str, meant: str) -> None:
    told = message_with(line, table)
    assert told.startswith("unknown key\n")
    assert told.endswith(f"(did you mean '{meant}'?)")


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("trigger = { after = '2s' }", "under [[steps]]"),
        ('config = { "retention.ms" = "9" }', "under [topics.NAME] or [[steps]]"),
        ("config.retention.ms = '9'", "under [topics.NAME] or [[steps]]"),
    ],
)
def test_a_table_in_the_wrong_table_is_no_name_of_kafka(line: str, place: str) -> None:
    assert problem_with(line, "[[producers]]") == f"unknown key here: it belongs {place}"


@pytest.mark.parametrize("name", ["metadata.version", "eligible.leader.replicas.version", "group.version"])
def test_the_level_of_a_feature_belongs_in_features(name: str) -> None:
    for written in (f'"{name}"', name):
        for table, there in (("[cluster]", ""), ("[topics.t]", " under [cluster]")):
            hint = f'the level of a feature belongs in features{there}: features = {{ "{name}" = ... }}'
            assert problem_with(f"{written} = 1", table) == f"unknown key: {hint}"


@pytest.mark.parametrize(
    ("table", "name", "key", "place"),
    [
        ("[cluster]", "replication.factor", "replication_factor", "[topics.NAME]"),
        ("[topics.t]", "linger.ms", "linger_ms", "[[producers]]"),
    ],
)
def test_a_name_of_kafka_that_another_table_has_as_a_key_is_reported_with_that_table(
    table: str, name: str, key: str, place: str
) -> None:
    for written in (f'"{name}"', name):
        told = problem_with(f"{written} = 2", table)
        assert told == f"unknown key: Kafka's {name} is {key}, which belongs under {place}"


@pytest.mark.parametrize("key", sorted(_KEYS.values()))
def test_every_key_that_means_a_name_of_kafka_is_a_key_of_a_table(key: str) -> None:
    assert place_of_key(key) is not None
