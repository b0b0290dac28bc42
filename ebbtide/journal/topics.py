"""Names the topics in the tables that are made of journals, where several topics had one name.

See `ebbtide.record.topic_lives`. Nothing changes where no step made a topic again.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Any

import pyarrow.compute as pc

from ebbtide.journal.file import JournalReader
from ebbtide.journal.frames import POLLED, unpack_polled
from ebbtide.record.files import JOURNAL_DIR, own_folder
from ebbtide.record.folder import RecordFolder
from ebbtide.record.tables import POLLS
from ebbtide.record.topic_lives import TopicLives, is_unknown
from ebbtide.untrusted.parquet import read_rows

Columns = dict[str, list[Any]]

_FINAL_READ = "consumer-0"
"""The name of the final read among the clients."""
_TIMES = {"sends": ("sent_ns", "done_ns"), "watermarks": ("asked_ns", "at_ns"), "described": ("asked_ns", "at_ns")}


class JournalTopics:
    """The topics of a record, and what the final read returned of those whose name was used again."""

    def __init__(self, lives: TopicLives, read: Set[tuple[str, int]]) -> None:
        """`read`: topics and values."""
        self._lives = lives
        self._read = read

    @classmethod
    def of_record(cls, record: RecordFolder) -> JournalTopics:
        """Read the steps and the final read of a record whose journals are not all converted."""
        lives = TopicLives.of_record(record)
        return cls(lives, _final_values(record, lives) if lives.reused_names else frozenset())

    def named(self, table: str, chunks: Iterator[Columns]) -> Iterator[Columns]:
        """Yield the rows of a table with the names of their topics.

        An answer that may be of either topic has no leader epoch, so that nothing is concluded from it.
        """
        times = _TIMES.get(table)
        for columns in chunks:
            if times is not None and not self._lives.reused_names.isdisjoint(columns["topic"]):
                asked, answered = (columns[name] for name in times)
                values = columns.get("value", [None] * len(asked))
                rows = zip(columns["topic"], asked, answered, values, strict=True)
                columns["topic"] = [
                    self._lives.at_time(topic, first, last, is_read=(topic, value) in self._read)
                    for topic, first, last, value in rows
                ]
                if table == "watermarks":
                    epochs = zip(columns["topic"], columns["leader_epoch"], strict=True)
                    columns["leader_epoch"] = [None if is_unknown(topic) else epoch for topic, epoch in epochs]
            yield columns


def _final_values(record: RecordFolder, lives: TopicLives) -> Set[tuple[str, int]]:
    """Return what the final read returned, from its journal, or from its table if that is made already."""
    journal = own_folder(record, JOURNAL_DIR) / f"{_FINAL_READ}.journal"
    table = own_folder(record, "polls") / f"{_FINAL_READ}.parquet"
    found: set[tuple[str, int]] = set()
    if journal.is_file():
        reader = JournalReader(journal)
        topics = reader.header.topics if reader.header else ()
        for kind, payload in reader.frames():
            if kind == POLLED:
                polled = unpack_polled(payload)
                topic = topics[polled.topic]
                if topic in lives.reused_names:
                    found.update((topic, value) for value in polled.values)
    elif table.is_file():
        wanted = pc.field("topic").isin(sorted(lives.reused_names))
        rows = read_rows([table], "polls", schema=POLLS, columns=["topic", "value"], where=wanted)
        found.update((row["topic"], row["value"]) for row in rows.to_pylist())
    return found
