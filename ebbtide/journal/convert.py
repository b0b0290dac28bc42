"""Converts journals into the tables sends, polls, watermarks, described, commits, copies and handled.

It also writes clients/. It works on whatever a run left behind, also after a killed harness. A table appears whole or
not at all, its journal is removed only after that, and converting again changes nothing. The bytes of a torn tail are
counted; their content is never guessed. A send without an answer is unknown; of two answers for one send the later
one counts; a transaction without an end is unknown.
"""

from __future__ import annotations

import shutil
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ebbtide.errors import HarnessError
from ebbtide.handled import HANDLED_FILE, HandledRecord
from ebbtide.journal import frames
from ebbtide.journal.commits import Commit, CommitAnswer, unpack_commits, unpack_copies, unpack_described
from ebbtide.journal.file import JournalHeader, JournalReader
from ebbtide.journal.outcomes import UNRESOLVED
from ebbtide.record.clients import TxnOutcome, write_client_events
from ebbtide.record.files import JOURNAL_DIR, RecordFolder, new_file, own_folder
from ebbtide.record.tables import COMMITS, COPIES, DESCRIBED, HANDLED, POLLS, SENDS, WATERMARKS
from ebbtide.record.topic_lives import Columns, TopicLives, with_own_names
from ebbtide.untrusted.values import decode_json, decoding

JOURNAL_SUFFIX = ".journal"
ROW_GROUP_ROWS = 100_000
_AGAIN = "remove this file, and analyze again: what it held is then unknown"

_SCHEMAS = {
    "sends": SENDS,
    "polls": POLLS,
    "watermarks": WATERMARKS,
    "described": DESCRIBED,
    "commits": COMMITS,
    "copies": COPIES,
}
_TABLE_OF_NAME = {
    "producer": "sends",
    "consumer": "polls",
    "sampler": "watermarks",
    "describer": "described",
    "commits": "commits",
    "copies": "copies",
}


def has_journals(record: RecordFolder) -> bool:
    """Whether a client of the run has started, and its journal is not converted yet."""
    return any((record / JOURNAL_DIR).glob(f"*{JOURNAL_SUFFIX}"))


def convert_journals(record: RecordFolder) -> int:
    """Convert every journal of a run record into its table and remove it.

    The folder is removed with the last one. Returns how many bytes at the ends of all journals are not a whole frame.
    Call it when no client of the run is alive. Raises `HarnessError` when a table cannot be written (journals that
    are not converted stay), `UsageError` when a journal is damaged, or one of the record's folders is a link.
    """
    folder = own_folder(record, JOURNAL_DIR)
    lives = TopicLives.of_record(record)
    torn_bytes = sum(_convert(record, path, lives) for path in sorted(folder.glob(f"*{JOURNAL_SUFFIX}")))
    if (handled := folder / HANDLED_FILE).exists():
        _convert_handled(record, handled)
    # The clients' configurations and counters remain: they are scratch files, and not part of the record.
    shutil.rmtree(folder, ignore_errors=True)
    return torn_bytes


def _convert(record: RecordFolder, path: Path, lives: TopicLives) -> int:
    """Convert one journal; returns how many bytes at its end are not a whole frame."""
    with decoding("a journal of the record", path, next=_AGAIN):
        return _convert_whole(record, path, lives)


def _convert_whole(record: RecordFolder, path: Path, lives: TopicLives) -> int:
    reader = JournalReader(path)
    table = reader.header.table if reader.header else _TABLE_OF_NAME.get(path.stem.split("-")[0], "")
    if table not in _SCHEMAS:
        raise HarnessError("a journal belongs to no table of the record", where=str(path), allowed=", ".join(_SCHEMAS))
    schema = _SCHEMAS[table]
    target = own_folder(record, table) / f"{path.stem}.parquet"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with new_file(target) as file, pq.ParquetWriter(file, schema, compression="zstd") as writer:
            for columns in _row_groups(with_own_names(lives, table, _rows_of(table, reader)), schema):
                writer.write_table(pa.table(columns, schema=schema), row_group_size=ROW_GROUP_ROWS)
        if table in ("sends", "polls"):
            # An empty file distinguishes a client without events from a record that has no events at all.
            events = [frames.unpack_event(payload) for kind, payload in reader.frames() if kind == frames.EVENT]
            write_client_events(record, path.stem, events)
    except OSError as error:
        raise HarnessError(
            "a journal cannot be converted into its table, and is kept",
            where=str(target),
            got=str(error),
            next="free space and convert again",
        ) from None
    path.unlink()
    return reader.torn_bytes


def _convert_handled(record: RecordFolder, path: Path) -> None:
    """Convert what programs said they had handled. Raises `HarnessError` for a line that says nothing of the kind."""
    columns: Columns = {name: [] for name in HANDLED.names}
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                row = decode_json(line, HandledRecord)
            except msgspec.DecodeError as error:
                raise HarnessError(
                    "a program wrote something else than which record it had handled",
                    where=f"{path}, line {number}",
                    got=f"{line[:100].decode(errors='replace').strip()} ({error})",
                    allowed='{"topic": "orders", "partition": 0, "offset": 12}',
                ) from None
            for name, column in columns.items():
                column.append(getattr(row, name))
    target = own_folder(record, "handled") / "test.parquet"
    target.parent.mkdir(parents=True, exist_ok=True)
    with new_file(target) as file:
        pq.write_table(pa.table(columns, schema=HANDLED), file, compression="zstd")


def _rows_of(table: str, reader: JournalReader) -> Iterator[Columns]:
    """Return the journal's rows, as the columns of one frame at a time."""
    if reader.header is None:
        return iter(())
    convert: dict[str, Callable[[JournalHeader, JournalReader], Iterator[Columns]]] = {
        "sends": _rows_of_sends,
        "polls": _rows_of_polls,
        "watermarks": _rows_of_watermarks,
        "described": _rows_of_described,
        "commits": _rows_of_commits,
        "copies": _rows_of_copies,
    }
    return convert[table](reader.header, reader)


def _row_groups(chunks: Iterator[Columns], schema: pa.Schema) -> Iterator[Columns]:
    """Gather chunks into row groups.

    A group exceeds `ROW_GROUP_ROWS` by less than one chunk.
    """
    group: Columns = {name: [] for name in schema.names}
    size = 0
    for chunk in chunks:
        for name, column in group.items():
            column.extend(chunk[name])
        size = len(group[schema.names[0]])
        if size >= ROW_GROUP_ROWS:
            yield group
            group = {name: [] for name in schema.names}
            size = 0
    if size:
        yield group


def _rows_of_sends(header: JournalHeader, reader: JournalReader) -> Iterator[Columns]:
    answered: dict[int, list[frames.AnsweredSends]] = defaultdict(list)
    transactions = _Transactions()
    for kind, payload in reader.frames():
        if kind == frames.ANSWERED:
            answer = frames.unpack_answered(payload)
            answered[answer.partition].append(answer)
        elif kind == frames.TXN_BEGUN:
            transactions.begin(*frames.unpack_txn_begun(payload))
        elif kind == frames.TXN_ENDED:
            transactions.end(*frames.unpack_txn_ended(payload))
    answers = {partition: LastAnswers(each) for partition, each in answered.items()}
    seen: dict[int, int] = {}
    for kind, payload in reader.frames():
        if kind != frames.HANDED:
            continue
        partition, first, pairs = frames.unpack_handed(payload)
        # A frame that was written twice repeats sequences that the table has already.
        skip = max(0, seen.get(partition, 0) - first)
        values, sent = pairs[2 * skip :: 2], pairs[2 * skip + 1 :: 2]
        first += skip
        seen[partition] = max(seen.get(partition, 0), first + len(values))
        columns: Columns = {name: [] for name in SENDS.names}
        last = answers.get(partition) or LastAnswers(())
        for start, count, found in last.cover(first, len(values)):
            _extend_answer(columns, start, count, found)
        constants = {
            "topic": header.topics[0],
            "partition": partition,
            "producer": header.id,
            "acks": header.acks,
        }
        columns |= {name: [value] * len(values) for name, value in constants.items()}
        columns["value"], columns["sent_ns"] = list(values), list(sent)
        columns["sequence"] = list(range(first, first + len(values)))
        for txn, outcome, count in transactions.cover(partition, first, len(values)):
            columns["txn"] += [txn] * count
            columns["txn_outcome"] += [outcome] * count
        yield columns


class LastAnswers:
    """The last answer to each send of one partition, of `answers` in the order in which they came.

    An answer is for a whole batch, so memory is used per answer, and not per send.
    """

    def __init__(self, answers: Sequence[frames.AnsweredSends]) -> None:
        self._by_start = sorted(enumerate(answers), key=lambda one: one[1].first_sequence)
        self._starts = [answer.first_sequence for _, answer in self._by_start]
        self._longest = max((answer.count for answer in answers), default=0)

    def cover(self, first: int, count: int) -> Iterator[tuple[int, int, frames.AnsweredSends | None]]:
        """Yield `(start, count, answer)` pieces that together are exactly this range; None: there is no answer."""
        if not count:
            return
        low, high = bisect_right(self._starts, first - self._longest), bisect_left(self._starts, first + count)
        found = sorted(self._by_start[low:high], key=lambda one: one[0])
        numbers = np.zeros(count, np.int64)
        for number, (_, answer) in enumerate(found, 1):
            begin = answer.first_sequence - first
            numbers[max(0, begin) : max(0, begin + answer.count)] = number
        for begin, end in pairwise([0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), count]):
            number = int(numbers[begin])
            yield first + begin, end - begin, found[number - 1][1] if number else None


class _Transactions:
    """The transaction of each sequence of each partition, and how it ended."""

    def __init__(self) -> None:
        self._begun: dict[int, tuple[list[int], list[int]]] = {}
        self._outcomes: dict[int, TxnOutcome] = {}

    def begin(self, txn: int, first_sequences: Iterable[int]) -> None:
        """Assign records from these sequences on, one per partition, to `txn`."""
        for partition, first in enumerate(first_sequences):
            starts, txns = self._begun.setdefault(partition, ([], []))
            starts.append(first)
            txns.append(txn)

    def end(self, txn: int, outcome: TxnOutcome) -> None:
        """Set the outcome of a transaction."""
        self._outcomes[txn] = outcome

    def cover(self, partition: int, first: int, count: int) -> Iterator[tuple[int | None, TxnOutcome | None, int]]:
        """Yield `(transaction, outcome, count)` pieces that together are the range.

        None: in no transaction.
        """
        starts, txns = self._begun.get(partition, ([], []))
        at, end = first, first + count
        while at < end:
            # Where several begin at one sequence, only the last one has records on this partition.
            index = bisect_right(starts, at)
            until = min(end, starts[index]) if index < len(starts) else end
            txn = txns[index - 1] if index else None
            yield txn, None if txn is None else self._outcomes.get(txn, "unknown"), until - at
            at = until


def _extend_answer(columns: Columns, start: int, count: int, answer: frames.AnsweredSends | None) -> None:
    status: str
    error: str | None
    done: int | None
    offsets: list[object]
    if answer is None:
        status, error, done, offsets = "unknown", UNRESOLVED, None, [None] * count
    else:
        status, error, done = frames.STATUSES[answer.status], answer.error or None, answer.done_ns
        base = answer.base_offset + start - answer.first_sequence
        offsets = list(range(base, base + count)) if answer.base_offset >= 0 else [None] * count
    columns["status"] += [status] * count
    columns["error"] += [error] * count
    columns["done_ns"] += [done] * count
    columns["offset"] += offsets


def _rows_of_polls(header: JournalHeader, reader: JournalReader) -> Iterator[Columns]:
    for kind, payload in reader.frames():
        if kind != frames.POLLED:
            continue
        polled = frames.unpack_polled(payload)
        count = len(polled.offsets)
        yield {
            "topic": [header.topics[polled.topic]] * count,
            "partition": [polled.partition] * count,
            "offset": list(polled.offsets),
            "value": _nullable(polled.values),
            "consumer": [header.id] * count,
            "session": [polled.session] * count,
            "prev_offset": _nullable([polled.previous, *polled.offsets[:-1]]),
            "leader_epoch": _nullable(polled.epochs),
            "isolation": [header.isolation] * count,
            "polled_ns": [polled.polled_ns] * count,
        }


def _rows_of_watermarks(header: JournalHeader, reader: JournalReader) -> Iterator[Columns]:
    for kind, payload in reader.frames():
        if kind != frames.OBSERVED:
            continue
        marks = frames.unpack_watermarks(payload)
        topic, partition, broker, epoch, high_watermark, asked, at = (
            list(marks[field :: frames.OBSERVED_FIELDS]) for field in range(frames.OBSERVED_FIELDS)
        )
        yield {
            "topic": [header.topics[index] for index in topic],
            "partition": list(partition),
            "broker": list(broker),
            "leader_epoch": _nullable(epoch),
            "high_watermark": list(high_watermark),
            "log_end_offset": [None] * len(at),
            "source": ["list_offsets"] * len(at),
            "asked_ns": list(asked),
            "at_ns": list(at),
        }


def _rows_of_described(header: JournalHeader, reader: JournalReader) -> Iterator[Columns]:
    for kind, payload in reader.frames():
        rows = unpack_described(kind, payload)
        columns: Columns = {name: [getattr(row, name) for row in rows] for name in DESCRIBED.names if name != "topic"}
        yield {**columns, "topic": [header.topics[row.topic] for row in rows]}


def _rows_of_commits(header: JournalHeader, reader: JournalReader) -> Iterator[Columns]:
    """Return a row for each partition of each commit, and for each answer of a coordinator.

    A commit without an answer is unknown.
    """
    answers: dict[int, CommitAnswer] = {}
    for kind, payload in reader.frames():
        answers |= {one.commit: one for one in unpack_commits(kind, payload) if isinstance(one, CommitAnswer)}
    for kind, payload in reader.frames():
        columns: Columns = {name: [] for name in COMMITS.names}
        for one in unpack_commits(kind, payload):
            if isinstance(one, CommitAnswer):
                continue
            row: dict[str, object] = {name: getattr(one, name, None) for name in COMMITS.names}
            row["topic"] = header.topics[one.topic]
            if isinstance(one, Commit):
                answer = answers.get(one.commit, CommitAnswer(commit=one.commit, status="unknown", error=UNRESOLVED))
                row |= {"status": answer.status, "error": answer.error, "done_ns": answer.done_ns}
            for name, column in columns.items():
                column.append(row[name])
        yield columns


def _rows_of_copies(header: JournalHeader, reader: JournalReader) -> Iterator[Columns]:
    for kind, payload in reader.frames():
        copies = unpack_copies(kind, payload)
        yield {
            "group": [header.group or ""] * len(copies),
            "topic": [header.topics[0]] * len(copies),
            "partition": [one.partition for one in copies],
            "offset": [one.offset for one in copies],
            "copied_to": [header.topics[1]] * len(copies),
            "producer": [header.id] * len(copies),
            "value": [one.value for one in copies],
            "sent_ns": [one.at_ns for one in copies],
        }


def _nullable(numbers: Iterable[int]) -> list[object]:
    """Return the numbers with null for -1."""
    return [None if number == -1 else number for number in numbers]
