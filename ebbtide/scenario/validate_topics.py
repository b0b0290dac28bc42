"""Validates steps that delete topics and make them again."""

from __future__ import annotations

from collections.abc import Iterator

from ebbtide.errors import UsageError
from ebbtide.scenario.client_libraries import DEFAULT_LIBRARY
from ebbtide.scenario.internal_topics import INTERNAL_TOPICS
from ebbtide.scenario.parts import Parts, TablePart
from ebbtide.scenario.references import EarlierNames
from ebbtide.scenario.steps.admin import AddPartitionsStep, CreateTopicStep, DeleteRecordsStep, DeleteTopicStep
from ebbtide.scenario.triggers import tag_of


def validate_deleted_topic(
    parts: Parts, where: str, names: EarlierNames, *, topic: str, expect_error: str | None
) -> Iterator[UsageError]:
    """Report a topic that is not there, and clients whose records could not be judged."""
    at = f"{where}.topic"
    if topic in INTERNAL_TOPICS:
        yield UsageError("Kafka's own topic", where=at, got=repr(topic), allowed="a topic of the scenario")
        return
    if topic in names.deleted_topics and expect_error is None:
        yield UsageError(
            "an earlier step deleted the topic",
            where=at,
            got=repr(topic),
            allowed="a `create-topic` step between the two, or expect_error = 'UNKNOWN_TOPIC_OR_PARTITION'",
        )
    consumers, producers = (
        [one for one in each or () if one is not None] for each in (parts.consumers, parts.producers)
    )
    readers = [f"consumer {one.get('id')}" for one in consumers if topic in one.elements("topics")]
    # The place of an input does not say from which of two topics of one name it is.
    readers += [f"copier {one.get('id')}" for one in producers if one.get("copies") == topic]
    if readers:
        yield UsageError(
            "a topic that consumers or copiers read",
            where=at,
            got=f"{topic}, which {readers[0]} reads",
            allowed="a topic without consumers and copiers; the final read reads it",
        )
    writers = [one for one in producers if one.get("topic") == topic]
    if writers and not _is_made_again(parts, topic):
        yield UsageError(
            "a topic that producers write to, and that no later step makes again",
            where=at,
            got=f"{topic}, to which producer {writers[0].get('id')} writes",
            allowed="a topic without producers, or a later `create-topic` step",
        )
    for one in writers:
        yield from _validate_writer(one, topic, at)


def validate_created_topic(
    parts: Parts, where: str, names: EarlierNames, *, topic: str, expect_error: str | None
) -> Iterator[UsageError]:
    """Report a topic that exists, and steps that move the log starts or the partitions of such a topic."""
    if parts.topics and topic not in parts.topics:
        return
    if topic not in names.deleted_topics and expect_error is None:
        yield UsageError(
            "a topic of this name exists",
            where=f"{where}.topic",
            got=repr(topic),
            allowed="a topic that an earlier `delete-topic` step deletes, or expect_error = 'TOPIC_ALREADY_EXISTS'",
        )
    for index, step in enumerate(parts.steps or ()):
        of_topic = step.get("topic") if step.type is AddPartitionsStep else None
        partition = step.get("partition") if step.type is DeleteRecordsStep else None
        if topic in (of_topic, None if partition is None else partition.at[0]):
            yield UsageError(
                "a topic that is made again keeps its partitions and records",
                where=f"{where}.topic",
                got=f"{topic}, which steps[{index}] ({tag_of(step.type)}) changes",
                allowed="`add-partitions` and `delete-records` of other topics",
            )


def _is_made_again(parts: Parts, topic: str) -> bool:
    """Whether the last step that deletes or creates the topic creates it, or may do so."""
    made = True
    for step in parts.steps or ():
        if step.get("topic", topic) == topic and not step.has_value("expect_error"):
            if step.may_be_a(CreateTopicStep):
                made = True
            elif step.may_be_a(DeleteTopicStep):
                made = False
    return made


def _validate_writer(one: TablePart, topic: str, where: str) -> Iterator[UsageError]:
    """Report a producer of which nobody knows to which of two topics of one name it wrote."""
    wrong = {
        "acks = '0'": one.get("acks") == "0",
        "idempotent": bool(one.get("idempotent")),
        "transactional": bool(one.get("transactional")),
        f"client = {one.get('client')!r}": one.get("client") not in (None, DEFAULT_LIBRARY),
    }
    for what, is_wrong in wrong.items():
        if is_wrong:
            yield UsageError(
                "a producer that cannot write to a topic that is deleted and made again",
                where=where,
                got=f"{topic}, to which producer {one.get('id')} writes with {what}",
                allowed=f"producers with client = {DEFAULT_LIBRARY!r} and acks = '1' or 'all', not idempotent",
            )
