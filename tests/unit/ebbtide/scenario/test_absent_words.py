"""Words from other tools: each row of the table is true, and is said where such a word is typed."""

from __future__ import annotations

import re
from collections.abc import Collection
from fnmatch import fnmatchcase
from typing import get_args

import msgspec
import pytest

from ebbtide.errors import Problems
from ebbtide.pytest_plugin.steps import did_you_mean_step
from ebbtide.scenario.absent_words import AbsentWord, absent_word, absent_words, plain_word
from ebbtide.scenario.client_libraries import ClientLibrary, GroupProtocol
from ebbtide.scenario.kafka_settings import allowed_settings, refused_kinds
from ebbtide.scenario.model import ClusterSpec, ConsumerSpec, ProducerSpec, Scenario, TopicSpec
from ebbtide.scenario.parse import parse
from ebbtide.scenario.steps.table import KINDS, STEP_TYPES
from ebbtide.scenario.triggers import TRIGGERS
from harness.cli.main import VERBS, main


def keys_of_table(kind: type[msgspec.Struct]) -> set[str]:
    """The keys of a table in a file."""
    return {one.encode_name for one in msgspec.structs.fields(kind)}


TABLES = {"cluster": ClusterSpec, "topics": TopicSpec, "producers": ProducerSpec, "consumers": ConsumerSpec}
REAL: dict[str, Collection[str]] = {
    "step": KINDS,
    "steps": {key for kind in STEP_TYPES.values() for key in keys_of_table(kind)},
    "trigger": TRIGGERS,
    "file": keys_of_table(Scenario),
    "client": get_args(ClientLibrary),
    "group_protocol": get_args(GroupProtocol),
    "kafka-python": (),
    "settings": {*allowed_settings("producer"), *allowed_settings("librdkafka")},
    "properties": (),
    **{place: keys_of_table(table) for place, table in TABLES.items()},
}
"""What Ebbtide has at each place. Kafka's own properties may be known to a release that is old enough."""

ROWS = [pytest.param(row, id=f"{row.words[0]}-{row.at[0]}") for row in absent_words()]

FILE = """
name = "x"
title = "x"
kafka = ["4.3.1"]
{file}
[cluster]
brokers = 3
{cluster}
[topics.t]
{topics}
[[producers]]
id = 1
topic = "t"
count = 10
{producers}
[[consumers]]
id = 1
topics = ["t"]
{consumers}
[[steps]]
{steps}
"""
KILL = 'step = "kill"\ntarget = "leader(t-0)"\ntrigger = { acked = 5 }\n'


def told(table: str, line: str) -> str:
    lines = dict.fromkeys(("file", "cluster", "topics", "producers", "consumers"), "") | {"steps": KILL}
    lines[table] = line if line.startswith("step =") else lines[table] + line
    with pytest.raises(Problems) as found:
        parse(FILE.format(**lines), file="x.toml", strict=True)
    return str(found.value)


@pytest.mark.parametrize("row", ROWS)
def test_no_word_of_a_row_is_one_that_ebbtide_has_there(row: AbsentWord) -> None:
    for place in row.at:
        real = [plain_word(one) for one in REAL[place]]
        here = [(word, one) for word in row.words for one in real if fnmatchcase(one, plain_word(word))]
        assert here == [], f"Ebbtide has this at {place}: the row must go"


@pytest.mark.parametrize("row", ROWS)
def test_a_row_names_only_what_ebbtide_has(row: AbsentWord) -> None:
    assert bool(row.called) != bool(row.closest)
    assert not row.called or "`" in row.called
    known = {key for keys in REAL.values() for key in keys} | {"retention.ms", "metadata.version"}
    for quoted in re.findall(r"`([^`]+)`", row.called + row.closest):
        words = re.findall(r"--[a-z-]+|[a-z][a-z_.-]*", quoted)
        if words[0] == "ebbtide" or words[0].startswith("--"):
            verbs, options = [one for one in words if not one.startswith("--")], words[-1]
            assert verbs[1:2] == [] or verbs[1] in VERBS, quoted
            assert not options.startswith("--") or has_option(row.called + row.closest, options), quoted
            continue
        assert words[0] in known, quoted
        if "=" in quoted and (values := REAL.get(words[0])) is not None:
            assert words[-1] in values, quoted


def has_option(sentence: str, option: str) -> bool:
    """Whether the verb that the sentence names has this option."""
    import contextlib
    import io

    verb = re.findall(r"ebbtide ([a-z]+(?: up)?)", sentence)[0].split()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        main([*verb, "--help"])
    return re.search(rf"{option}\b", printed.getvalue()) is not None


def test_a_word_has_one_row_at_a_place() -> None:
    rows = [(place, plain_word(word)) for row in absent_words() for place in row.at for word in row.words]
    assert [one for one in rows if rows.count(one) > 1] == []


@pytest.mark.parametrize("name", sorted({name for kind in refused_kinds() if kind.of_records for name in kind.node}))
def test_each_property_that_the_harness_sets_has_a_sentence(name: str) -> None:
    assert absent_word(name, "properties") is not None


@pytest.mark.parametrize(
    ("table", "line", "sentence"),
    [
        ("steps", 'step = "packet-loss"\n', "packet-loss is not here; what comes closest: `flap`"),
        ("steps", 'step = "latency"\n', "latency is not here; what comes closest: `delay-request`"),
        ("steps", 'step = "Pod_Kill"\n', "Pod_Kill is `kill` here"),
        ("steps", 'step = "packet-loss"\nloss = "30%"\n', "loss is not here; what comes closest: `flap`"),
        ("steps", 'loss = "30%"\n', "loss is not here; what comes closest: `flap`"),
        ("steps", 'step = "kill"\ntarget = "leader(t-0)"\ntrigger = { time = "5s" }\n', "time is `after` here"),
        ("cluster", '"process.roles" = "broker"\n', "process.roles is not here; what comes closest: `controllers = 3`"),
        ("cluster", "process.roles = 'broker'\n", "process.roles is not here; what comes closest: `controllers = 3`"),
        ("cluster", 'broker_properties = { "node.id" = "1" }\n', "node.id is not here; what comes closest: `brokers`"),
        ("topics", "rf = 3\n", "rf is `replication_factor` here"),
        ("producers", 'timestamp = "-2d"\n', "timestamp is not here; what comes closest: a short `retention.ms`"),
        (
            "producers",
            "retries = 0\n",
            "retries is not here; what comes closest: `properties` of a producer with `client",
        ),
        ("producers", 'client = "confluent-kafka"\n', 'confluent-kafka is `client = "librdkafka"` here'),
        ("producers", 'properties = { retries = "0" }\n', 'closest: `client = "librdkafka"` or `client = "java"`'),
        ("producers", 'properties = { "ssl.key.password" = "0" }\n', "closest: `ebbtide watch --command-config`"),
        ("consumers", "auto_commit = true\n", "auto_commit is not here; what comes closest: `commit_every`"),
        ("consumers", '"enable.auto.commit" = "true"\n', "enable.auto.commit is not here; what comes closest: `commit"),
        (
            "consumers",
            'group_protocol = "share"\n',
            'share is not here; what comes closest: `group_protocol = "consumer"`',
        ),
        ("file", "nemesis = 3\n", "nemesis is `[[steps]]` here"),
    ],
)
def test_the_sentence_is_said_where_such_a_word_is_typed(table: str, line: str, sentence: str) -> None:
    assert sentence in told(table, line)


@pytest.mark.parametrize("command", [["cluster", "fault", "packet-loss"], ["random", "--without", "packet-loss"]])
def test_commands_that_take_a_kind_of_step_say_it(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command) == 4
    error = capsys.readouterr().err
    assert "packet-loss is not here; what comes closest: `flap`" in error
    assert "power-loss" not in error


def test_the_pytest_fixture_says_it() -> None:
    assert did_you_mean_step("packet_loss").startswith(" packet_loss is not here; what comes closest: `flap`")
    assert did_you_mean_step("power_los") == " Did you mean 'power_loss'?"


def test_a_property_that_kafka_4_removed_is_known_before_a_run() -> None:
    error = told("cluster", 'broker_properties = { "inter.broker.protocol.version" = "3.9" }\n')
    assert "Kafka 4.0.0 removed it" in error
    assert "metadata.version" in error
    assert "inter.broker.listener.name" not in error
