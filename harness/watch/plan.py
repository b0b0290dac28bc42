"""The workload of a watch: topics of its own, and clients that send at a limited rate.

It comes from a scenario file without steps, or is the default. Topics get names of their own, so that nothing else on
the cluster is touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from cluster.watched.watch_topic import PREFIX
from ebbtide.errors import Problems, UsageError
from ebbtide.releases.known_releases import KNOWN
from ebbtide.scenario.kafka_settings import DEFAULT_LIBRARY
from ebbtide.scenario.model import MAX_BROKERS, ConsumerSpec, Prediction, ProducerSpec, Scenario, TopicSpec
from ebbtide.scenario.parse import load
from ebbtide.scenario.safety import TOPIC_MAX
from harness.watch.probing import WatchedCluster

RECORDS_S_MAX = 1_000.0
BYTES_S_MAX = 256 * 1024.0
"""Over all producers of a watch."""

RUN_DIGITS = 8
"""How many random digits the names of a watch's topics have."""
_NAME_MAX = TOPIC_MAX - len(PREFIX) - RUN_DIGITS - len("-")

NAME = "watch"
_TITLE = "A cluster that Ebbtide did not start"
_DEFAULTS: Mapping[str, Any] = {"name": NAME, "title": _TITLE, "kafka": [KNOWN[0].version]}
"""The keys that a workload may leave out, and a run needs. What it asks for has to be there in the oldest release."""
_DEFAULT_RATE_S = 20.0
_OWN_CONFIG = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""A record that retention deletes is not lost, but the watch could not know how much more was."""

PROTOCOL_OF_A_WATCH = Prediction(
    kafka=">=3.3",
    clause="a watch predicts nothing: judged by KIP-966, KIP-704 and KIP-903, as far as the record shows what happened",
)


def lacks_only_for_a_run(raw: Mapping[str, object]) -> list[str]:
    """Return the keys that a run needs and the decoded file of a workload leaves out; empty for any other file.

    A workload has clients or topics, and no steps.
    """
    is_workload = "steps" not in raw and not raw.keys().isdisjoint(("topics", "producers", "consumers"))
    return [key for key in _DEFAULTS if key not in raw] if is_workload else []


def read_workload(path: Path) -> Scenario:
    """Read the scenario file of a watch.

    Raises `Problems` for a file that is wrong, or that a watch cannot carry out.
    """
    scenario = load(path, to_run=True, defaults=_DEFAULTS, next="ebbtide watch --help")
    if problems := [*_problems_of(scenario)]:
        raise Problems(str(path), [*problems], next="ebbtide watch --help")
    return scenario


def scenario_of(cluster: WatchedCluster, workload: Scenario | None, run: str) -> Scenario:
    """Return what the watch carries out, with topics named for this `run`.

    Raises `UsageError` for a replication factor that the cluster does not have the brokers for.
    """
    count = len(cluster.brokers)
    if workload is None:
        workload = _default_workload(count)
    for name, topic in workload.topics.items():
        if topic.replication_factor > count:
            raise UsageError(
                "the cluster has too few brokers",
                where=f"topics.{name}.replication_factor",
                got=str(topic.replication_factor),
                allowed=f"1 to {count}",
            )
    names = {name: f"{PREFIX}{run}-{name}" for name in workload.topics}
    factors = [topic.replication_factor for topic in workload.topics.values()]
    return msgspec.structs.replace(
        workload,
        kafka=(cluster.kafka,),
        cluster=msgspec.structs.replace(workload.cluster, brokers=min(MAX_BROKERS, max(count, *factors))),
        topics={
            names[name]: msgspec.structs.replace(topic, config=_OWN_CONFIG | topic.config, assignment=())
            for name, topic in workload.topics.items()
        },
        producers=tuple(msgspec.structs.replace(one, topic=names[one.topic]) for one in workload.producers),
        consumers=tuple(
            msgspec.structs.replace(one, topics=tuple(names[topic] for topic in one.topics))
            for one in workload.consumers
        ),
        predictions=tuple(_with_topic_names(one, names) for one in workload.predictions),
    )


def name_in_file(topic: str) -> str:
    """Return the name that the workload gives to a topic which a watch made."""
    return topic.removeprefix(PREFIX).partition("-")[2]


def _default_workload(brokers: int) -> Scenario:
    factor = min(3, brokers)
    return Scenario(
        name=NAME,
        title=_TITLE,
        kafka=tuple(_DEFAULTS["kafka"]),
        topics={"t": TopicSpec(partitions=1, replication_factor=factor, min_isr=max(1, factor - 1))},
        producers=(ProducerSpec(id=1, topic="t", acks="all", rate_per_s=_DEFAULT_RATE_S),),
        consumers=(ConsumerSpec(id=1, topics=("t",)),),
        predictions=(PROTOCOL_OF_A_WATCH,),
    )


def _with_topic_names(prediction: Prediction, names: dict[str, str]) -> Prediction:
    none_on = tuple(names.get(one, one) for one in prediction.loss.none_on)
    return msgspec.structs.replace(prediction, loss=msgspec.structs.replace(prediction.loss, none_on=none_on))


def _problems_of(scenario: Scenario) -> Iterator[UsageError]:
    """Yield what the file asks for and a watch does not do."""
    if scenario.steps:
        yield UsageError(
            "a watch has no steps: somebody else breaks the cluster",
            where="steps",
            got=f"{len(scenario.steps)} steps",
            allowed="topics, producers, consumers and predictions",
        )
    for name in scenario.topics:
        if len(name) > _NAME_MAX:
            yield UsageError(
                "too long a topic name: the topic that a watch makes has a prefix",
                where=f"topics.{name}",
                got=f"{len(name)} characters",
                allowed=f"up to {_NAME_MAX}",
            )
    for index, producer in enumerate(scenario.producers):
        where = f"producers[{index}]"
        if producer.transactional:
            yield UsageError(
                "a watch has no transactions: they write to a topic that is not its own", where=f"{where}.transactional"
            )
        if producer.client not in (None, DEFAULT_LIBRARY):
            yield UsageError(
                "a watch sends with kafka-python only",
                where=f"{where}.client",
                got=producer.client,
                allowed=DEFAULT_LIBRARY,
            )
        if producer.rate_per_s is None:
            yield UsageError(
                "a producer of a watch needs a rate", where=f"{where}.rate_per_s", allowed=f"up to {RECORDS_S_MAX:g}"
            )
    rate = sum(one.rate_per_s or 0.0 for one in scenario.producers)
    if rate > RECORDS_S_MAX:
        yield UsageError(
            "the producers of a watch are limited",
            where="rate_per_s of all producers",
            got=f"{rate:g} records a second",
            allowed=f"up to {RECORDS_S_MAX:g}",
        )
    size = sum((one.rate_per_s or 0.0) * one.payload_bytes for one in scenario.producers)
    if size > BYTES_S_MAX:
        yield UsageError(
            "the producers of a watch are limited",
            where="payload_bytes x rate_per_s of all producers",
            got=f"{size:,.0f} bytes a second",
            allowed=f"up to {BYTES_S_MAX:,.0f}",
        )
    for index, consumer in enumerate(scenario.consumers):
        if consumer.library != DEFAULT_LIBRARY:
            yield UsageError(
                "a watch reads with kafka-python only",
                where=f"consumers[{index}].client",
                got=consumer.library,
                allowed=DEFAULT_LIBRARY,
            )
        if consumer.group is not None:
            yield UsageError(
                "a watch has no consumer groups: they write to a topic that is not its own",
                where=f"consumers[{index}].group",
            )
