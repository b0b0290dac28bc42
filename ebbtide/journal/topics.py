"""Names the topics in the tables that are made of journals, where several topics had one name.

See `ebbtide.record.topic_lives`. Nothing changes where no step made a topic again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ebbtide.record.topic_lives import TopicLives, is_unknown

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
