"""Properties of nodes that have no effect where they stand: each is a problem that says which line has one."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from ebbtide.errors import ExitCode, Problems
from ebbtide.scenario.kafka_settings import kafka_properties
from ebbtide.scenario.parse import parse
from harness.cli.main import main

FILE = """
name = "x"
title = "x"
kafka = ["4.3.1"]

[cluster]
{role}_properties = {{ {properties} }}

[topics.t]
{topic}

[topics.u]
{topic}

[[producers]]
id = 1
topic = "t"
count = 10
{clients}
"""

GROUP = '[[consumers]]\nid = 1\ntopics = ["t"]\ngroup = "g"\n'
OFFSETS = '[topics."__consumer_offsets"]\nmin_isr = 2\n'
TRANSACTIONAL = "transactional = true\ntxn_records = 5\n"
DELETED = '[[steps]]\nstep = "delete-topic"\ntopic = "u"\ntrigger = { acked = 5 }\n'


def problems(properties: str, topic: str = "", clients: str = "", role: str = "broker") -> dict[str, str]:
    text = FILE.format(properties=properties, topic=topic, clients=clients, role=role)
    try:
        parse(text, file="x.toml", strict=True)
    except Problems as found:
        return {str(one.where).partition("_properties.")[2]: f"{one.what}; {one.allowed}" for one in found.problems}
    return {}


@pytest.mark.parametrize(
    ("role", "line", "other_line"),
    [
        ("broker", '"unclean.leader.election.enable" = "true"', "controller_properties = {"),
        ("broker", '"auto.leader.rebalance.enable" = "true"', "controller_properties = {"),
        ("broker", '"leader.imbalance.check.interval.seconds" = "5"', "controller_properties = {"),
        ("controller", '"replica.lag.time.max.ms" = "30000"', "broker_properties = {"),
        ("controller", '"log.retention.ms" = "1000"', "broker_properties = {"),
        ("controller", '"min.insync.replicas" = "1"', "min_isr = 1 under [topics.t]"),
    ],
)
def test_a_property_that_other_nodes_obey_is_a_problem_that_names_their_table(
    role: str, line: str, other_line: str
) -> None:
    name = line.split('"')[1]
    assert other_line in problems(line, role=role)[name]


def test_a_property_that_its_nodes_obey_is_none() -> None:
    assert problems('"log.retention.ms" = "1000", "num.io.threads" = "2", "replica.lag.time.max.ms" = "9000"') == {}
    assert problems('"unclean.leader.election.enable" = "true", "num.io.threads" = "2"', role="controller") == {}


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("min.insync.replicas", "min_isr"),
        ("num.partitions", "partitions"),
        ("default.replication.factor", "replication_factor"),
    ],
)
def test_a_default_that_ebbtides_own_default_hides_is_a_problem_that_names_the_key(name: str, key: str) -> None:
    told = problems(f'"{name}" = "1"' if key != "partitions" else f'"{name}" = "3"')[name]
    assert f"{key} of topic t is " in told
    assert "by default" in told
    assert f"{key} = {'3' if key == 'partitions' else '1'} under [topics.t]" in told


def test_a_default_that_agrees_with_the_topics_is_none() -> None:
    assert problems('"min.insync.replicas" = "2", "num.partitions" = "1", "default.replication.factor" = "3"') == {}


def test_a_default_that_only_kafkas_own_topic_takes_counts() -> None:
    properties, topic = '"min.insync.replicas" = "2"', "min_isr = 1"
    assert "min.insync.replicas" in problems(properties, topic)
    assert problems(properties, topic, GROUP) == {}
    assert "min.insync.replicas" in problems(properties, topic, GROUP + OFFSETS)
    assert "min.insync.replicas" in problems(properties, topic, TRANSACTIONAL)


def test_a_default_that_every_topic_overrides_in_its_config_is_a_problem() -> None:
    retention = 'config = { "retention.ms" = "5000" }'
    assert (
        "each topic has a retention.ms of its own"
        in problems('"log.retention.ms" = "1"', retention)["log.retention.ms"]
    )
    assert problems('"log.retention.ms" = "1"') == {}
    # __consumer_offsets takes it.
    assert problems('"log.retention.ms" = "1"', retention, GROUP) == {}


def test_of_two_properties_for_one_config_the_one_that_kafka_does_not_read_is_a_problem() -> None:
    found = problems('"log.retention.hours" = "1", "log.retention.ms" = "1000"')
    assert "Kafka reads log.retention.ms instead" in found.pop("log.retention.hours")
    assert found == {}


def test_no_topic_is_created_by_itself() -> None:
    properties = '"auto.create.topics.enable" = "true", "num.partitions" = "3"'
    assert problems(properties).keys() == {"auto.create.topics.enable", "num.partitions"}
    assert problems('"auto.create.topics.enable" = "false"') == {}


@pytest.mark.parametrize("verb", [["scenarios", "check"], ["run"]], ids=" ".join)
def test_the_commands_report_a_server_properties_that_was_copied(
    verb: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "my.toml"
    copied = '"min.insync.replicas" = "1", "unclean.leader.election.enable" = "true"'
    file.write_text(FILE.format(role="broker", properties=copied, topic="", clients=""))
    assert main([*verb, str(file)]) == ExitCode.USAGE
    error = capsys.readouterr().err
    assert f"{file}: 2 problems" in error
    assert "min_isr = 1 under [topics.t]" in error
    assert 'controller_properties = { "unclean.leader.election.enable" = "true" }' in error


def test_no_property_is_obeyed_by_two_parties() -> None:
    names = [name for names in kafka_properties().obeyed_by.values() for name in names]
    assert [(one, other) for one in names for other in names if one != other and fnmatchcase(one, other)] == []


def test_every_topic_default_but_two_is_of_the_brokers() -> None:
    known = kafka_properties()
    others = {name for name in known.topic_defaults if known.obeyer_of(name) != "brokers"}
    assert others == {"min.insync.replicas", "unclean.leader.election.enable"}
