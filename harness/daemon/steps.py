"""Refuses a step that is invalid or can have no effect, before it is carried out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

from cluster.runtime.cluster import Runtime
from ebbtide.errors import EbbtideError, Problems, UsageError
from ebbtide.kraft.image import MetadataImage
from ebbtide.record.files import JOURNAL_DIR, LOGS_DIR
from ebbtide.scenario.model import Scenario, TopicSpec
from ebbtide.scenario.references import EarlierNames
from ebbtide.scenario.safety import validate_words
from ebbtide.scenario.steps.step import StepSpec, target_of
from ebbtide.scenario.steps.table import DISK_TROUBLES, help_of_kind
from ebbtide.scenario.steps.wire import ReleaseStep
from ebbtide.scenario.triggers import OffsetTrigger
from ebbtide.scenario.validate import validate, validate_topic
from ebbtide.scenario.validate_order import impossible_now
from ebbtide.scenario.validate_steps import validate_step
from ebbtide.scenario.words import CLIENTS
from harness.runner.session import Session
from harness.runner.view import RoleUnresolved
from workloads.client import Client
from workloads.config import NewTopic, TopicsConfig, read_topics_result


def refuse_invalid(scenario: Scenario, step: StepSpec, image: MetadataImage) -> None:
    """Raise `Problems` if `step` is invalid as the next step of `scenario`.

    In a scenario with topics the step must be valid as the next step of its file, because the run is judged by it. It
    may also name topics that were made since, for clients of others. On a plain cluster, the topics are those that it
    has now, and any order of steps is valid.
    """
    problems: list[EbbtideError] = [
        # The key without its step: `target` for `steps[3].target`.
        UsageError(one.what, where=(one.where or "").partition(".")[2] or None, got=one.got, allowed=one.allowed)
        for one in _problems(scenario, step, image)
    ]
    if problems:
        raise Problems(f"the step {step.step}", problems, next=help_of_kind(step.step))


def refuse_without_effect(session: Session, step: StepSpec) -> None:
    """Raise `Problems` if `step` could have no effect on the cluster as it is now.

    A step with a trigger is not checked: it fires later, and its roles may name other nodes then.
    """
    target = target_of(step)
    if step.trigger is not None:
        return
    try:
        nodes = (None,) if target is None else session.view.resolve(target)
    except RoleUnresolved:
        return
    in_force, states = session.in_force, session.node_states()
    names = {None: "the cluster", CLIENTS: "clients"} | {one.id: one.name for one in session.runtime.nodes.values()}
    problems: list[EbbtideError] = []
    for node in nodes:
        found = list(impossible_now(step, node, in_force))
        if not found and isinstance(step, ReleaseStep):
            return
        name = names[node]
        where = f"{name}, {states[name]}" if name in states else name
        if found and step.kind.starts and name in states and states[name].state == "running":
            found = [UsageError(f"nothing to start: {name} is running", allowed="a node that is down")]
        problems += [UsageError(one.what, where=where, got=one.got, allowed=one.allowed) for one in found]
    if step.step in DISK_TROUBLES and session.runtime.power_loss_method == "truncate":
        problems.append(
            UsageError(
                "this step needs nodes with their own volumes",
                where="the cluster, which loses power by truncate",
                allowed="a cluster on a host with loop mounts, without --power-loss truncate",
            )
        )
    if problems:
        raise Problems(f"the step {step.step}", problems, next="ebbtide cluster status")


def _problems(scenario: Scenario, step: StepSpec, image: MetadataImage) -> Iterator[UsageError]:
    where = f"steps[{len(scenario.steps)}]"
    whole = msgspec.structs.replace(scenario, steps=(*scenario.steps, step))
    wrong_words = [one for one in validate_words(whole) if str(one.where).startswith(where)]
    if wrong_words:
        yield from wrong_words
    elif scenario.topics:
        # Only the clients of the scenario tell the HW.
        others = {} if isinstance(step.trigger, OffsetTrigger) else _topics(image)
        whole = msgspec.structs.replace(whole, topics={**others, **scenario.topics})
        yield from (one for one in validate(whole) if str(one.where).startswith(where))
    else:
        whole = msgspec.structs.replace(scenario, topics=_topics(image))
        names = frozenset(one.name for one in scenario.steps if one.name is not None)
        yield from validate_step(whole, step, where, EarlierNames(names))


def _topics(image: MetadataImage) -> dict[str, TopicSpec]:
    """Return the topics that the cluster has now, with their numbers of partitions."""
    counts = Counter(partition.topic for partition in image.partitions)
    return {topic: TopicSpec(partitions=count) for topic, count in counts.items()}


TIMEOUT_S = 30.0


def refuse_topic(cluster: str, runtime: Runtime, image: MetadataImage, name: str, spec: TopicSpec) -> None:
    """Raise `Problems` for a topic that exists or that the cluster of this name cannot have."""
    problems: list[EbbtideError] = []
    there = [row for partition, row in image.partitions.items() if partition.topic == name]
    if there:
        count, factor = len(there), max(len(row.replicas) for row in there)
        problems.append(
            UsageError(
                "a topic of this name exists",
                got=f"{name}, with {count} partition{'s' if count > 1 else ''} and replication factor {factor}",
                allowed=f"another name, or: ebbtide cluster fault delete-topic --topic {name} --cluster {cluster}",
            )
        )
    problems += validate_topic(name, spec, name, len(_broker_ids(runtime)))
    if problems:
        raise Problems(f"the topic {name}", problems, next="ebbtide cluster status")


def create_topic(runtime: Runtime, folder: Path, name: str, spec: TopicSpec) -> None:
    """Create a topic with its leaders spread over the brokers.

    Returns when every partition has its full ISR.

    The client writes its files into `folder`. Raises `HarnessError` with the last answer of the cluster, and
    `UsageError` for settings that Kafka refuses.
    """
    brokers = _broker_ids(runtime)
    client = Client(f"topic-{name}", "workloads.topics", folder / JOURNAL_DIR, folder / LOGS_DIR / f"topic-{name}.log")
    config = TopicsConfig(
        endpoints=client.endpoints,
        bootstrap=tuple(runtime.bootstrap_servers()),
        topics={
            name: NewTopic(
                assignment=spec.assignment or _spread_replicas(brokers, spec),
                config={"min.insync.replicas": str(spec.min_isr), **spec.config},
            )
        },
        result=str(folder / JOURNAL_DIR / f"topic-{name}.brokers.json"),
        timeout_s=TIMEOUT_S,
    )
    client.run_to_end(config, runtime.start_client, TIMEOUT_S)
    read_topics_result(Path(config.result))


def _broker_ids(runtime: Runtime) -> list[int]:
    return [node.id for node in runtime.nodes.values() if node.role == "broker"]


def _spread_replicas(brokers: list[int], spec: TopicSpec) -> tuple[tuple[int, ...], ...]:
    """Return each partition's replicas.

    Its first replica is one broker on from that of the partition before.
    """
    count = len(brokers)
    return tuple(
        tuple(brokers[(partition + replica) % count] for replica in range(spec.replication_factor))
        for partition in range(spec.partitions)
    )
