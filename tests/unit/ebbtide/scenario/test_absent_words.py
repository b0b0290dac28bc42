"""Words from other tools: each row of the table is true, and is said where such a word is typed."""

from __future__ import annotations

import re
from collections.abc import Collection
from fnmatch import fnmatchcase
from typing import get_args

import msgspec
import pytest
from allowed_settings import allowed_settings

from ebbtide.pytest_plugin.steps import did_you_mean_step
from ebbtide.scenario.absent_words import AbsentWord, absent_word, absent_words, plain_word
from ebbtide.scenario.kafka_settings import ClientLibrary, GroupProtocol, refused_kinds
from ebbtide.scenario.key_places import _KEYS, place_of_key
from ebbtide.scenario.model import ClusterSpec, ConsumerSpec, ProducerSpec, Scenario, TopicSpec
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
    "kafka-python": {*allowed_settings("kafka-python"), *allowed_settings("kafka-python-consumer")},
    "settings": {*allowed_settings("producer"), *allowed_settings("librdkafka")},
    "properties": (),
    **{place: keys_of_table(table) for place, table in TABLES.items()},
}
"""What Ebbtide has at each place. Kafka's own properties may be known to a release that is old enough."""

ROWS = [pytest.param(row, id=f"{row.words[0]}-{row.at[0]}") for row in absent_words()]


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


@pytest.mark.parametrize("name", sorted({name for kind in refused_kinds() if kind.of_records for name in kind.node}))
def test_each_property_that_the_harness_sets_has_a_sentence(name: str) -> None:
    assert absent_word(name, "properties") is not None


@pytest.mark.parametrize("command", [["cluster", "fault", "packet-loss"], ["random", "--without", "packet-loss"]])
def test_commands_that_take_a_kind_of_step_say_it(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command) == 4
    error = capsys.readouterr().err
    assert "packet-loss is not here; what comes closest: `flap`" in error
    assert "power-loss" not in error


@pytest.mark.parametrize("key", sorted(_KEYS.values()))
def test_every_key_that_means_a_name_of_kafka_is_a_key_of_a_table(key: str) -> None:
    assert place_of_key(key) is not None


def test_the_pytest_fixture_says_it() -> None:
    assert did_you_mean_step("packet_loss").startswith(" packet_loss is not here; what comes closest: `flap`")
    assert did_you_mean_step("power_los") == " Did you mean 'power_loss'?"
