"""Names the topics that had one name one after the other, where a step deleted a topic and made it again.

Kafka gives the new topic another id, and its offsets begin at 0. The tables of a record name partitions by topic name
and number. So each topic that a step deleted and another step made again has a name of its own there: `u@1` is the
first topic `u`, `u@2` the second, and the topic of that name at the end of the run is `u`. Kafka allows no `@` in the
name of a topic.

- A row of the metadata log belongs to the topic of its offset.
- A replica's log belongs to the topic whose id its `partition.metadata` has.
- An answer of a broker is known by time only. Between the request for the new topic and the moment at which every
  running broker knew it, it may be of either topic. Its row then has the name `u@?`. No client of a scenario uses a
  topic that is deleted.

Nothing changes where no step made a topic again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import msgspec

from ebbtide.errors import EbbtideError
from ebbtide.record.files import RecordFolder
from ebbtide.record.steps import StepEntry, read_steps
from ebbtide.scenario.steps.admin import CreateTopicStep, DeleteTopicStep

_MARK = "@"
_UNKNOWN = "?"
_MAYBE_MADE = ("NONE", "REQUEST_TIMED_OUT", "NOT_CONTROLLER", "UNKNOWN")
"""The answers to CreateTopics after which the topic may exist; all others are refusals."""


class Recreation(msgspec.Struct, frozen=True, kw_only=True):
    """A topic that was made under the name of one that was deleted, by the proof of the step.

    - `since`: from this metadata offset on, records are of the new topic.
    - `asked_ns`: when the new topic was asked for; it did not exist before.
    - `known_ns`: from then on every running broker knew the new topic; None: it is not known that all did.
    - `topic_id`: the id of the new topic, where the metadata log had it.
    """

    since: int
    asked_ns: int
    known_ns: int | None
    topic_id: str | None


class TopicLives:
    """The topics of each name that was used again; names that were not are their own."""

    def __init__(self, recreations: Mapping[str, Sequence[Recreation]]) -> None:
        self._recreations = {name: tuple(found) for name, found in recreations.items()}

    @classmethod
    def of_steps(cls, steps: Iterable[StepEntry]) -> TopicLives:
        """The topics that the steps made, by their proofs.

        A step without an answer, or with an error that is no refusal, counts too: Kafka may have made the topic.
        """
        found: dict[str, list[Recreation]] = {}
        for step in steps:
            made = _recreation(step)
            if made is not None:
                found.setdefault(str(step.asked.topic), []).append(made)
        return cls(found)

    @classmethod
    def of_record(cls, record: RecordFolder) -> TopicLives:
        """The topics of a record; where its steps cannot be read, each name counts as one topic."""
        try:
            return cls.of_steps(read_steps(record) or ())
        except EbbtideError:
            # A damaged steps.jsonl is reported where faults are judged; it proves nothing here.
            return cls({})

    @property
    def reused_names(self) -> Set[str]:
        """The names that several topics had."""
        return self._recreations.keys()

    def recreations(self, topic: str) -> Sequence[Recreation]:
        """Return how topics of this name were made again, in order."""
        return self._recreations.get(topic, ())

    def at_offset(self, topic: str, metadata_offset: int) -> str:
        """Return the name of the topic in a row of the metadata log."""
        made = self.recreations(topic)
        return self.numbered(topic, bisect_right([one.since for one in made], metadata_offset))

    def of_id(self, topic: str, topic_id: str | None) -> str:
        """Return the name of the topic of this name with this id; without an id it is the last."""
        made = self.recreations(topic)
        ids = [one.topic_id for one in made]
        if topic_id is None or not made or None in ids:
            return topic
        return self.numbered(topic, ids.index(topic_id) + 1 if topic_id in ids else 0)

    def at_time(self, topic: str, asked_ns: int, answered_ns: int | None) -> str:
        """Return the name of the topic to which a request went; `answered_ns` None: there was no answer."""
        made = self.recreations(topic)
        first = sum(one.known_ns is not None and one.known_ns <= asked_ns for one in made)
        last = len(made) if answered_ns is None else sum(one.asked_ns <= answered_ns for one in made)
        if first >= last:
            return self.numbered(topic, last)
        return unknown_of(topic)

    def numbered(self, topic: str, number: int) -> str:
        """Return the name of a topic, the first of its name being number 0."""
        return topic if number == len(self.recreations(topic)) else f"{topic}{_MARK}{number + 1}"


def deletion_times(steps: Iterable[StepEntry]) -> dict[str, int]:
    """Return when each deleted topic of a record's tables was deleted, in ns.

    The states of its partitions end without a row that says so.
    """
    found: dict[str, int] = {}
    steps = list(steps)
    lives, numbers = TopicLives.of_steps(steps), Counter[str]()
    for step in steps:
        name = str(step.asked.topic)
        if step.is_a(DeleteTopicStep) and step.effect_ns is not None:
            found[lives.numbered(name, numbers[name])] = step.effect_ns
        elif (made := _recreation(step)) is not None:
            found.setdefault(lives.numbered(name, numbers[name]), made.asked_ns)
            numbers[name] += 1
    return found


def name_of(topic: str) -> str:
    """Return the name that Kafka knows for a topic of a record's table."""
    return topic.partition(_MARK)[0]


def is_deleted(topic: str) -> bool:
    """Whether a topic of a record's table was deleted and another one has its name now, or may have."""
    return _MARK in topic


def unknown_of(name: str) -> str:
    """Return the name of rows of which it is not known to which topic of a name they belong."""
    return f"{name}{_MARK}{_UNKNOWN}"


def is_unknown(topic: str) -> bool:
    """Whether it is not known which of several topics of one name it is."""
    return topic == unknown_of(name_of(topic))


def topic_id_in(folder: Path) -> str | None:
    """Return the topic id in the `partition.metadata` of a replica's log; None where there is none."""
    try:
        lines = (folder / "partition.metadata").read_text(errors="replace").splitlines()
    except OSError:
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("topic_id:")), None)


def _recreation(step: StepEntry) -> Recreation | None:
    proof = step.figures(CreateTopicStep.Proof)
    if not step.is_a(CreateTopicStep) or (proof.answer or "NONE") not in _MAYBE_MADE:
        return None
    if proof.since is None or proof.asked_ns is None:
        return None
    return Recreation(
        since=proof.since,
        asked_ns=proof.asked_ns,
        known_ns=proof.known_ns if proof.unaware == () else None,
        topic_id=None if proof.record is None else proof.record.topic_id,
    )


Columns = dict[str, list[Any]]

_TIMES = {"watermarks": ("asked_ns", "at_ns"), "described": ("asked_ns", "at_ns")}
"""Tables of answers about any topic. Clients use no topic that is made again; what the final read reads is the last."""


def with_own_names(lives: TopicLives, table: str, chunks: Iterator[Columns]) -> Iterator[Columns]:
    """Yield the rows of a table with the names of their topics.

    An answer that may be of either topic has no leader epoch, so that nothing is concluded from it.
    """
    times = _TIMES.get(table)
    for columns in chunks:
        if times is not None and not lives.reused_names.isdisjoint(columns["topic"]):
            rows = zip(columns["topic"], *(columns[name] for name in times), strict=True)
            columns["topic"] = [lives.at_time(topic, first, last) for topic, first, last in rows]
            if table == "watermarks":
                epochs = zip(columns["topic"], columns["leader_epoch"], strict=True)
                columns["leader_epoch"] = [None if is_unknown(topic) else epoch for topic, epoch in epochs]
        yield columns
