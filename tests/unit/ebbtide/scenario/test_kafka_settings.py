"""The settings that a scenario may set: those that a known Kafka defines, less the reviewed kinds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import tomli_w
from allowed_settings import allowed_settings

from cluster.host.bridge import address_of
from cluster.runtime.properties import plan_cluster, properties_of
from ebbtide.errors import Problems
from ebbtide.releases.known_releases import KNOWN, parse_version
from ebbtide.scenario import catalogue
from ebbtide.scenario.kafka_settings import (
    KafkaSetting,
    Place,
    RefusedByKafka,
    refused_kind,
    settings_at,
)
from ebbtide.scenario.model import ClusterSpec, ProducerSpec, Scenario, TopicSpec
from ebbtide.scenario.parse import parse
from ebbtide.scenario.safety import refuse_unsafe
from ebbtide.scenario.steps.admin import SetConfigStep
from ebbtide.scenario.validate_settings import validate_client_settings, validate_settings
from ebbtide.scenario.words import ConfigResource
from ebbtide.scenario.write import text_of
from harness.runner import settings_check
from tools.kafka_settings import merge

PLACES: tuple[Place, ...] = ("node", "topic", "producer", "librdkafka")
FILE = "${dir:/elsewhere:secret}"
PROVIDERS = {
    "config.providers": "dir",
    "config.providers.dir.class": "org.apache.kafka.common.config.provider.DirectoryConfigProvider",
}


def with_settings(place: Place, settings: dict[str, str], kafka: str = "4.3.1") -> Scenario:
    """A shipped scenario that sets these at one place."""
    healthy = msgspec.structs.replace(catalogue.find("healthy"), kafka=(kafka,))
    if place == "node":
        return msgspec.structs.replace(healthy, cluster=ClusterSpec(broker_properties=settings))
    if place == "topic":
        return msgspec.structs.replace(healthy, topics={"t": TopicSpec(config=settings)})
    client: Any = "java" if place == "producer" else place
    producer = ProducerSpec(id=1, topic="t", count=9, keys=2, client=client, properties=settings)
    return msgspec.structs.replace(healthy, producers=(producer,))


def changing(resource: str, settings: dict[str, str]) -> Scenario:
    """A scenario whose steps change these settings of a resource."""
    steps = [SetConfigStep(resource=ConfigResource(resource), config=name, value=it) for name, it in settings.items()]
    return msgspec.structs.replace(catalogue.find("healthy"), steps=tuple(steps))


def refused(scenario: Scenario) -> dict[str, str]:
    """What is refused of it, by its place in the file."""
    found = [*validate_settings(scenario, to_run=True), *validate_client_settings(scenario)]
    return {str(one.where): one.render() for one in found}


ATTACKS = {
    "node": with_settings("node", {**PROVIDERS, "broker.rack": FILE}),
    "topic": with_settings("topic", {**PROVIDERS, "retention.ms": FILE}),
    "producer": with_settings("producer", {**PROVIDERS, "client.rack": FILE}),
    "librdkafka": with_settings("librdkafka", {**PROVIDERS, "client.rack": FILE}),
    "set-config of a topic": changing("topic:t", {**PROVIDERS, "retention.ms": FILE}),
    "set-config of a broker": changing("broker:broker(1)", {**PROVIDERS, "log.retention.ms": FILE}),
    "set-config of the cluster": changing("cluster", {**PROVIDERS, "log.retention.ms": FILE}),
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_a_scenario_reads_no_file_of_the_host_into_the_record(attack: Scenario) -> None:
    problems = refused(attack)
    assert len(problems) == 3
    assert sum("a value that refers to a file or a variable of the host" in one for one in problems.values()) == 1
    with pytest.raises(Problems):
        refuse_unsafe(attack)
    with pytest.raises(Problems) as caught:
        parse(text_of(attack), file="x.toml", strict=True)
    assert problems.keys() <= {one.where for one in caught.value.problems}


def test_a_step_sets_no_number_to_nothing_unless_kafka_is_to_refuse_it() -> None:
    scenario = changing("topic:t", {"retention.ms": "", "cleanup.policy": ""})
    assert list(refused(scenario)) == ["steps[0].value"]
    steps = tuple(msgspec.structs.replace(step, expect_error="INVALID_CONFIG") for step in scenario.steps)
    assert refused(msgspec.structs.replace(scenario, steps=steps)) == {}


def value_of(setting: KafkaSetting) -> str:
    return "true" if setting.type == "boolean" else "1"


@pytest.mark.parametrize("place", PLACES)
def test_every_setting_of_every_refused_kind_is_refused_and_no_other(place: Place) -> None:
    every = settings_at(place)
    problems = refused(with_settings(place, {one.name: value_of(one) for one in every.values()}))
    table = {"node": "cluster.broker_properties", "topic": "topics.t.config"}.get(place, "producers[0].properties")
    of_kinds = {f"{table}.{name}" for name in every if refused_kind(place, name) is not None}
    assert problems.keys() == of_kinds
    assert all("a setting that a scenario cannot have: " in problem for problem in problems.values())
    assert len(of_kinds) < len(every)


@pytest.mark.parametrize("place", PLACES)
def test_a_setting_that_may_be_set_is_a_number_or_a_reviewed_text(place: Place) -> None:
    free = {"boolean", "double", "float", "int", "integer", "long", "short", "enum"}
    texts = {name for name, one in allowed_settings(place).items() if one.type not in free}
    outward = ("class", "path", ".location", "servers", "file", "listener", "url", "dir", "address", "provider")
    assert not [name for name in texts if any(word in name for word in outward)]
    planted = refused_kind(place, "of.a.later.release", "string")
    assert planted is not None
    assert planted.kind == "unreviewed"
    assert refused_kind(place, "of.a.later.release", "class") is not None
    assert place == "librdkafka" or refused_kind(place, "of.a.later.release", "int") is None


def test_many_unknown_names_take_no_long_time_each() -> None:
    many = {f"num.io.thread{number}": "1" for number in range(2000)}
    problems = refused(with_settings("node", many))
    assert len(problems) == len(many)
    assert sum("did you mean" in one for one in problems.values()) == 10


@pytest.mark.parametrize("release", [one.version for one in KNOWN])
def test_the_table_has_every_property_that_ebbtide_sets(release: str) -> None:
    specs = (ClusterSpec(controllers=3), ClusterSpec(quorum="dynamic"))
    plans = [plan_cluster(spec, address_of) for spec in specs if spec.quorum is None or release >= "3.9"]
    names = {name for plan in plans for node in plan.nodes.values() for name in properties_of(plan, node, [Path("/d")])}
    version = parse_version(release)
    known = {
        one.name
        for one in settings_at("node").values()
        if parse_version(one.first) <= version <= parse_version(one.last)
    }
    assert names <= known


def test_what_an_unknown_release_alone_may_have_is_left_to_its_jars() -> None:
    new = {"of.a.later.release": "1"}
    assert refused(with_settings("node", new, kafka="9.9.9")) == {}
    assert len(refused(with_settings("node", new, kafka="4.3.1"))) == 1
    assert len(refused(with_settings("librdkafka", new, kafka="9.9.9"))) == 1
    assert len(refused(with_settings("node", {"of.a.later.release": FILE}, kafka="9.9.9"))) == 1


@pytest.mark.parametrize(("type_", "is_refused"), [("int", False), ("class", True), ("string", True), (None, True)])
def test_the_jars_of_an_unknown_release_decide_before_anything_starts(
    type_: str | None, is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = "of.a.later.release"
    defined = [] if type_ is None else [KafkaSetting("node", new, type_, "9.9.9", "9.9.9")]
    monkeypatch.setattr(settings_check, "defined_settings", lambda kafka, progress: defined)
    scenario = with_settings("node", {new: "1"}, kafka="9.9.9")
    if not is_refused:
        settings_check.check_settings(scenario, lambda _: None)
        return
    with pytest.raises(RefusedByKafka) as caught:
        settings_check.check_settings(scenario, lambda _: None)
    assert caught.value.where == f"cluster.broker_properties.{new}"


def test_the_jars_of_a_known_release_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings_check, "defined_settings", lambda *_: pytest.fail("started Java"))
    settings_check.check_settings(with_settings("node", {"num.io.threads": "2"}), lambda _: None)
    settings_check.check_settings(with_settings("node", {}, kafka="9.9.9"), lambda _: None)


def test_what_the_newest_release_says_of_a_setting_counts() -> None:
    old = KafkaSetting("topic", "a", "string", "3.9.1", "3.9.1", ("b",))
    new = KafkaSetting("topic", "a", "list", "4.3.1", "4.3.1", ("c", "b"))
    gone = KafkaSetting("node", "z", "int", "3.9.1", "3.9.1")
    assert merge([[old, gone], [new]]) == [gone, KafkaSetting("topic", "a", "list", "3.9.1", "4.3.1", ("c", "b"))]
    assert gone.removed_in == "3.9.2"


def test_a_property_before_the_first_release_that_has_it_has_no_effect() -> None:
    name = "max.decompressed.message.bytes"
    assert settings_at("node")[name].first == "4.4.0"
    with pytest.raises(Problems, match=r"Kafka has it from 4\.4\.0 on"):
        parse(text_of(with_settings("node", {name: "9"}, kafka="4.3.1")), file="x.toml", strict=True)
    parse(text_of(with_settings("node", {name: "9"}, kafka="4.4.0")), file="x.toml", strict=True)


@pytest.mark.parametrize("value", ["ebbing", "ebbing\n", FILE + "ebbing", 4711])
@pytest.mark.parametrize(
    "name",
    ["sasl.jaas.config", "ssl.key.password", "listener.name.plaintext.sasl.jaas.config", "delegation.token.secret"],
)
def test_no_message_shows_the_value_of_a_security_property(name: str, value: str | int) -> None:
    text = catalogue.text_of("healthy") + tomli_w.dumps({"cluster": {"broker_properties": {name: value}}})
    with pytest.raises(Problems) as caught:
        parse(text, file="x.toml", strict=True)
    assert name in caught.value.render()
    assert "ebbing" not in caught.value.render()
    assert "4711" not in caught.value.render()
