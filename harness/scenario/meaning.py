"""What the types of a scenario file cannot say: references, ranges, keys that exclude each other."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations, product

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from harness.errors import UsageError
from harness.known_releases import parse_version
from harness.runtime.properties import HARNESS_OWNED
from harness.runtime.storage import check_features
from harness.scenario.admin_meaning import (
    broker_config,
    deleted_topic,
    error_known,
    feature_known,
    replicas,
    resource_form,
)
from harness.scenario.check import suggestion
from harness.scenario.model import WIRE_KINDS, OfPartitions, Scenario, StepSpec, TopicSpec, Trigger
from harness.scenario.order import order
from harness.scenario.roles import PARTITION_ROLES, Role, overlap, parse_role
from harness.scenario.step_keys import keys_of_kind
from harness.scenario.wire_meaning import held_trigger, wire_step
from harness.scenario.words import duration_s

MAX_BROKERS = 6
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,64}")

Wrong = Callable[[str], bool]
"""Whether the value at a path is a stand-in for one that does not fit, so that nothing may be said from it."""


def meaning(scenario: Scenario, wrong: Wrong) -> Iterator[UsageError]:
    """What the types cannot say: references, ranges, exclusive keys.

    A problem is named at the key that it is about. Problems at keys that are `wrong` are the caller's to drop;
    those that rest on other keys, which are `wrong`, are not found.
    """
    yield from _cluster(scenario)
    yield from _topics(scenario, wrong)
    yield from _clients(scenario, wrong)
    names: set[str] = set()
    for index, step in enumerate(scenario.steps):
        yield from _step(scenario, step, f"steps[{index}]", names, wrong)
        if step.trigger is not None and step.trigger.held is not None:
            yield from held_trigger(step.trigger.held, scenario.steps[:index], f"steps[{index}].trigger.held")
        if step.name in names:
            yield UsageError(
                "name taken by an earlier step", where=f"steps[{index}].name", got=repr(step.name), allowed="another"
            )
        if step.name is not None:
            names.add(step.name)
    yield from order(scenario.steps, lambda index: any(wrong(f"steps[{index}].{key}") for key in ("step", "target")))
    if not wrong("predictions"):
        yield from _predictions(scenario)


def _limit(where: str, got: float, low: float, high: float | None = None) -> Iterator[UsageError]:
    if got < low or (high is not None and got > high):
        allowed = f"{low:g} or more" if high is None else f"{low:g} to {high:g}"
        yield UsageError("out of range", where=where, got=f"{got:g}", allowed=allowed)


def _cluster(scenario: Scenario) -> Iterator[UsageError]:
    if not _NAME.fullmatch(scenario.name):
        yield UsageError(
            "not a scenario name", where="name", got=repr(scenario.name), allowed="a-z, 0-9 and -, 1 to 64 of them"
        )
    if not scenario.kafka:
        yield UsageError("no release to run", where="kafka", got="[]", allowed="at least one, e.g. ['3.9.1']")
    for index, text in enumerate(scenario.kafka):
        yield from _at(f"kafka[{index}]", partial(parse_version, text))
    cluster = scenario.cluster
    if cluster.controllers not in (1, 3):
        yield UsageError(
            "not a quorum size", where="cluster.controllers", got=str(cluster.controllers), allowed="1 or 3"
        )
    for role in ("broker", "controller"):
        owned = sorted(HARNESS_OWNED & getattr(cluster, f"{role}_properties").keys())
        if owned:
            yield UsageError(
                "a property that the harness sets itself",
                where=f"cluster.{role}_properties",
                got=", ".join(owned),
                allowed="any but " + ", ".join(sorted(HARNESS_OWNED)),
            )
    for name, level in cluster.features.items():
        yield from feature_known(name, f"cluster.features.{name}")
        yield from _limit(f"cluster.features.{name}", level, 0)
    if all(level >= 0 for level in cluster.features.values()):
        for text in scenario.kafka:
            yield from _features(text, cluster.features)
    yield from _limit("cluster.brokers", cluster.brokers, 1, MAX_BROKERS)
    yield from _limit("cluster.session_timeout_s", cluster.session_timeout_s, 1, 60)
    yield from _limit("cluster.replica_lag_max_s", cluster.replica_lag_max_s, 1, 60)
    yield from _limit("settle_s", scenario.settle_s, 1)


def _features(kafka: str, features: dict[str, int]) -> Iterator[UsageError]:
    with contextlib.suppress(UsageError):
        parse_version(kafka)
        yield from _at("cluster.features", partial(check_features, kafka, features))


def _brokers(scenario: Scenario, wrong: Wrong) -> int:
    """How many brokers there can be, as far as the file says."""
    return MAX_BROKERS if wrong("cluster.brokers") else scenario.cluster.brokers


def _topics(scenario: Scenario, wrong: Wrong) -> Iterator[UsageError]:
    if not scenario.topics:
        yield UsageError("no topic", where="topics", allowed="at least one [topics.NAME]")
    for name, topic in scenario.topics.items():
        where = f"topics.{name}"
        if not _TOPIC.fullmatch(name):
            yield UsageError("not a topic name", where=where, got=repr(name), allowed="1 to 64 of A-Z a-z 0-9 . _ -")
        yield from _limit(f"{where}.partitions", topic.partitions, 1, 100)
        yield from _limit(f"{where}.replication_factor", topic.replication_factor, 1, _brokers(scenario, wrong))
        yield from _limit(f"{where}.min_isr", topic.min_isr, 1)
        if topic.assignment and not wrong(f"{where}.assignment"):
            yield from _assignment(topic, f"{where}.assignment", _brokers(scenario, wrong))
        if "min.insync.replicas" in topic.config:
            yield UsageError(
                "a config that has a key of its own",
                where=f"{where}.config",
                got="min.insync.replicas",
                allowed="min_isr in the topic, and any other config here",
            )


def _assignment(topic: TopicSpec, where: str, brokers: int) -> Iterator[UsageError]:
    wanted = f"{topic.partitions} lists of {topic.replication_factor} different broker ids from 1 to {brokers}"
    fits = len(topic.assignment) == topic.partitions and all(
        len(replicas) == len(set(replicas)) == topic.replication_factor and set(replicas) <= set(range(1, brokers + 1))
        for replicas in topic.assignment
    )
    if not fits:
        got = str([list(replicas) for replicas in topic.assignment])
        yield UsageError("not an assignment of this topic", where=where, got=got, allowed=wanted)


def _topic_exists(scenario: Scenario, name: str, where: str, wrong: Wrong) -> Iterator[UsageError]:
    if scenario.topics and not wrong("topics") and name not in scenario.topics:
        names = sorted(scenario.topics)
        yield UsageError(
            "unknown topic", where=where, got=repr(name), allowed=", ".join(names) + suggestion(name, names)
        )


def _clients(scenario: Scenario, wrong: Wrong) -> Iterator[UsageError]:
    yield from _ids("producers", [producer.id for producer in scenario.producers], wrong)
    yield from _ids("consumers", [consumer.id for consumer in scenario.consumers], wrong)
    for index, producer in enumerate(scenario.producers):
        where = f"producers[{index}]"
        yield from _topic_exists(scenario, producer.topic, f"{where}.topic", wrong)
        if producer.count is None and producer.rate_per_s is None and not wrong(f"{where}.rate_per_s"):
            yield UsageError("neither count nor rate", where=f"{where}.count", allowed="count, rate_per_s, or both")
        yield from _limit(f"{where}.count", producer.count if producer.count is not None else 1, 1)
        yield from _limit(f"{where}.rate_per_s", producer.rate_per_s if producer.rate_per_s is not None else 1, 0.1)
        yield from _limit(f"{where}.payload_bytes", producer.payload_bytes, 64, 900_000)
        yield from _limit(f"{where}.linger_ms", producer.linger_ms, 0, 10_000)
    for index, consumer in enumerate(scenario.consumers):
        for at, topic in enumerate(consumer.topics):
            yield from _topic_exists(scenario, topic, f"consumers[{index}].topics[{at}]", wrong)


def _ids(kind: str, ids: list[int], wrong: Wrong) -> Iterator[UsageError]:
    taken = set()
    for index, one in enumerate(ids):
        yield from _limit(f"{kind}[{index}].id", one, 1, 1_000_000)
        if one in taken:
            yield UsageError("id taken", where=f"{kind}[{index}].id", got=str(one), allowed="one of its own")
        if not wrong(f"{kind}[{index}].id"):
            taken.add(one)


def _at(where: str, check: Callable[[], object]) -> Iterator[UsageError]:
    """Run a parser and put its complaint at `where`."""
    try:
        check()
    except UsageError as error:
        yield UsageError(error.what, where=where, got=error.got, allowed=error.allowed)


def _step(scenario: Scenario, step: StepSpec, where: str, names: set[str], wrong: Wrong) -> Iterator[UsageError]:
    if not wrong(f"{where}.step"):
        yield from keys_of_kind(step, where, wrong)
    yield from _overlaps(step, f"{where}.groups")
    yield from _limit(f"{where}.deadline_s", step.deadline_s, 0.1)
    if step.target is not None:
        clients = step.step in WIRE_KINDS or step.step == "release"
        yield from _role(scenario, step.target, f"{where}.target", names, wrong, clients=clients)
    for at, group in enumerate(step.groups):
        for member, role in enumerate(group):
            yield from _role(scenario, role, f"{where}.groups[{at}][{member}]", names, wrong, clients=True)
    for side, roles in (("from", step.from_), ("to", step.to)):
        for member, role in enumerate(roles):
            yield from _role(scenario, role, f"{where}.{side}[{member}]", names, wrong, clients=True)
    if step.times is not None:
        yield from _limit(f"{where}.times", step.times, 1, 1_000)
    if step.period is not None:
        yield from _at(f"{where}.period", partial(duration_s, step.period))
    yield from _admin(scenario, step, where, names, wrong)
    yield from wire_step(step, where)
    if step.trigger is not None:
        yield from _trigger(scenario, step.trigger, f"{where}.trigger", names, wrong)


def _admin(scenario: Scenario, step: StepSpec, where: str, names: set[str], wrong: Wrong) -> Iterator[UsageError]:
    if step.partition is not None:
        yield from _partition(scenario, step.partition, f"{where}.partition", wrong)
    for at, role in enumerate(step.replicas):
        yield from _role(scenario, role, f"{where}.replicas[{at}]", names, wrong, clients=True)
    yield from replicas(step, f"{where}.replicas", _brokers(scenario, wrong))
    if step.resource is not None:
        yield from _resource(scenario, step.resource, f"{where}.resource", names, wrong)
    if step.feature is not None:
        yield from feature_known(step.feature, f"{where}.feature")
        yield from _limit(f"{where}.level", step.level or 0, 0)
    if step.topic is not None:
        yield from _topic_exists(scenario, step.topic, f"{where}.topic", wrong)
        yield from deleted_topic(scenario, step.topic, f"{where}.topic")
    if step.expect_error is not None:
        yield from error_known(step.expect_error, f"{where}.expect_error")


def _resource(scenario: Scenario, text: str, where: str, names: set[str], wrong: Wrong) -> Iterator[UsageError]:
    yield from resource_form(text, where)
    kind, _, rest = text.partition(":")
    if kind == "topic":
        yield from _topic_exists(scenario, rest, where, wrong)
    elif kind == "broker" and rest:
        yield from _role(scenario, rest, where, names, wrong, clients=False)
        yield from broker_config(rest, where)


def _overlaps(step: StepSpec, where: str) -> Iterator[UsageError]:
    """Roles of two groups with a node in common; a one-way cut may have one on both sides, as in brokers > brokers."""
    for (at, one), (other_at, other) in combinations(enumerate(step.groups), 2):
        for (text, role), (other_text, other_role) in product(_parsed(one), _parsed(other)):
            if overlap(role, other_role):
                yield UsageError(
                    "two groups overlap: a node cannot be cut from itself",
                    where=where,
                    got=f"{text!r} in groups[{at}] and {other_text!r} in groups[{other_at}]",
                    allowed="groups with no node in common, e.g. leader(t-0) and followers(t-0)",
                )


def _parsed(group: tuple[str, ...]) -> list[tuple[str, Role]]:
    """The roles of a group, without those that are none: they have had their own complaint."""
    roles = []
    for text in group:
        with contextlib.suppress(UsageError):
            roles.append((text, parse_role(text)))
    return roles


def _role(
    scenario: Scenario, text: str, where: str, names: set[str], wrong: Wrong, *, clients: bool
) -> Iterator[UsageError]:
    try:
        role = parse_role(text)
    except UsageError as error:
        yield UsageError(error.what, where=where, got=error.got, allowed=error.allowed)
        return
    if role.kind in PARTITION_ROLES:
        yield from _partition(scenario, str(role.argument), where, wrong)
    elif role.kind == "broker":
        yield from _limit(where, int(str(role.argument)), 1, _brokers(scenario, wrong))
    elif role.kind == "step" and role.argument not in names:
        if any(wrong(f"steps[{index}].name") for index in range(len(scenario.steps))):
            return
        allowed = ", ".join(sorted(names)) or "none: no earlier step has a name"
        yield UsageError("no earlier step of that name", where=where, got=repr(role.argument), allowed=allowed)
    elif role.kind == "clients" and not clients:
        yield UsageError("clients cannot be a target", where=where, got=repr(text), allowed="a role of brokers")


def _partition(scenario: Scenario, text: str, where: str, wrong: Wrong) -> Iterator[UsageError]:
    topic, _, number = text.rpartition("-")
    known = scenario.topics.get(topic)
    if not scenario.topics or wrong("topics"):
        return
    if known is not None and number.isdigit() and (known.partitions < 1 or wrong(f"topics.{topic}.partitions")):
        return
    if known is None or not number.isdigit() or int(number) >= known.partitions:
        names = [f"{name}-{index}" for name, spec in scenario.topics.items() for index in range(spec.partitions)]
        shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        yield UsageError("unknown partition", where=where, got=repr(text), allowed=shown + suggestion(text, names))


def _trigger(scenario: Scenario, trigger: Trigger, where: str, names: set[str], wrong: Wrong) -> Iterator[UsageError]:
    fields = {field.encode_name: field.name for field in msgspec.structs.fields(trigger)}
    given = [key for key, name in fields.items() if getattr(trigger, name) is not None or wrong(f"{where}.{key}")]
    if len(given) != 1:
        got = ", ".join(given) or "none"
        yield UsageError(
            "a trigger asks one thing", where=where, got=got, allowed="exactly one of " + ", ".join(fields)
        )
    if trigger.after is not None:
        yield from _at(f"{where}.after", partial(duration_s, trigger.after))
    if trigger.acked is not None:
        yield from _limit(f"{where}.acked", trigger.acked, 1)
        total = sum(p.count for p in scenario.producers if p.count is not None)
        endless = any(p.count is None for p in scenario.producers)
        if not endless and not wrong("producers") and total < trigger.acked:
            yield UsageError("can never fire", where=f"{where}.acked", got=str(trigger.acked), allowed=f"up to {total}")
    for key in fields.values():
        asked = getattr(trigger, key)
        if isinstance(asked, OfPartitions):
            yield from _partitions(scenario, asked, f"{where}.{key}", wrong)
    if trigger.isr is not None:
        sizes = {"size": trigger.isr.size, "at_least": trigger.isr.at_least}
        if sum(size is not None or wrong(f"{where}.isr.{key}") for key, size in sizes.items()) != 1:
            yield UsageError("say how large the ISR is", where=f"{where}.isr", allowed="either size or at_least")
    for key in ("elr_contains", "leader_is", "broker_is"):
        asked = getattr(trigger, key)
        if asked is not None and not (key == "leader_is" and asked.broker == "none"):
            yield from _role(scenario, asked.broker, f"{where}.{key}.broker", names, wrong, clients=False)
    if trigger.held is not None:
        yield from _role(scenario, trigger.held.node, f"{where}.held.node", names, wrong, clients=True)
    if trigger.replicas is not None:
        for at, role in enumerate(trigger.replicas.are):
            yield from _role(scenario, role, f"{where}.replicas.are[{at}]", names, wrong, clients=False)
    if trigger.config_is is not None:
        yield from _resource(scenario, trigger.config_is.resource, f"{where}.config_is.resource", names, wrong)


def _partitions(scenario: Scenario, asked: OfPartitions, where: str, wrong: Wrong) -> Iterator[UsageError]:
    given = {"partition": asked.partition is not None, "partitions": bool(asked.partitions)}
    if sum(one or wrong(f"{where}.{key}") for key, one in given.items()) != 1:
        allowed = "either partition = 't-0', or partitions = ['t-0', 't-1']"
        yield UsageError("say which partition", where=f"{where}.partition", allowed=allowed)
    if asked.partition is not None:
        yield from _partition(scenario, asked.partition, f"{where}.partition", wrong)
    for at, name in enumerate(asked.partitions or ()):
        yield from _partition(scenario, name, f"{where}.partitions[{at}]", wrong)


def _predictions(scenario: Scenario) -> Iterator[UsageError]:
    ranges = []
    for index, prediction in enumerate(scenario.predictions):
        where = f"predictions[{index}]"
        try:
            ranges.append(SpecifierSet(prediction.kafka))
        except InvalidSpecifier:
            yield UsageError(
                "not a version range", where=f"{where}.kafka", got=repr(prediction.kafka), allowed="e.g. '>=3.7,<4.1'"
            )
    for index, text in enumerate(scenario.kafka):
        if len(ranges) == len(scenario.predictions) and not any(_fits(text, one) for one in ranges):
            yield UsageError(
                "no prediction for this release",
                where=f"kafka[{index}]",
                got=repr(text),
                allowed="a [[predictions]] entry whose kafka range holds it",
            )


def _fits(text: str, versions: SpecifierSet) -> bool:
    """Whether the range holds the release; one that is no release has had its own complaint."""
    try:
        return versions.contains(parse_version(text), prereleases=True)
    except UsageError:
        return True
