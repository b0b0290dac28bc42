"""What steps do to a client: its journal is continued without a value that it may have used, and its counts go on."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from ebbtide.journal.convert import convert_journals
from ebbtide.journal.file import NUMBERS_OF_A_LIFE, JournalHeader, JournalReader, JournalWriter, cut_torn_tail
from ebbtide.journal.payload import value_at
from ebbtide.record.files import JOURNAL_DIR
from ebbtide.record.folder import RecordFolder
from workloads.client import Client
from workloads.client_steps import ClientSteps
from workloads.config import Endpoints, ProducerConfig
from workloads.send_account import COUNTERS, SendCounts, counts_in
from workloads.single_sends import SingleSends
from workloads.status import StatusFile

HEADER = JournalHeader(table="sends", id=1, topics=("t",), acks=-1)


class Process:
    """A process that ends by what is sent to it."""

    pid = 1

    def __init__(self) -> None:
        self.status: int | None = None

    def exit_status(self) -> int | None:
        return self.status

    def kill(self) -> int:
        self.status = -9
        return -9


def life(journal: Path, number: int, records: int, acked: int) -> SendCounts:
    """A process of producer 1 sends records; the first ones are acked. Returns what its status file counts."""
    status = StatusFile.create(journal.with_suffix(".status"), len(COUNTERS))
    sends = SingleSends(JournalWriter(journal, HEADER, number), status, 1)
    config = ProducerConfig(
        endpoints=Endpoints(status="", stop=""), journal="", run_id="r", bootstrap=(), id=1, topic="t", life=number
    )
    (lane,) = sends.lanes
    for at in range(records):
        sends.hand_over(lane, config.value_at(at), 1)
        if at < acked:
            sends.answer(lane, at, "acked", 100 * number + at, "", 2)
    sends.flush()
    return counts_in(status, 1)


def test_a_producer_that_was_killed_goes_on_with_values_that_it_cannot_have_used(tmp_path: Path) -> None:
    journal = tmp_path / JOURNAL_DIR / "producer-1.journal"
    journal.parent.mkdir()
    life(journal, 0, records=3, acked=2)
    with journal.open("ab") as torn:
        torn.write(b"half a frame")
    cut_torn_tail(journal)
    life(journal, 1, records=2, acked=2)
    assert convert_journals(RecordFolder(tmp_path)) == 0
    rows = pq.read_table(tmp_path / "sends").to_pylist()
    assert [(row["sequence"], row["status"], row["error"], row["offset"]) for row in rows] == [
        (0, "acked", None, 0),
        (1, "acked", None, 1),
        (2, "unknown", "UNRESOLVED", None),
        (NUMBERS_OF_A_LIFE, "acked", None, 100),
        (NUMBERS_OF_A_LIFE + 1, "acked", None, 101),
    ]
    assert [row["value"] for row in rows[2:4]] == [value_at(1, 2), value_at(1, NUMBERS_OF_A_LIFE)]


def test_what_a_dead_producer_left_without_an_answer_is_unknown_and_counts_add_up(tmp_path: Path) -> None:
    journal = tmp_path / "producer-1.journal"
    first = life(journal, 0, records=3, acked=2)
    assert first == SendCounts(handed=3, acked=2)
    assert first.abandoned() + life(journal, 1, records=2, acked=1) == SendCounts(handed=5, acked=3, unknown=1)


def test_a_first_process_begins_a_journal_anew(tmp_path: Path) -> None:
    journal = tmp_path / "producer-1.journal"
    life(journal, 0, records=3, acked=0)
    life(journal, 0, records=1, acked=0)
    assert sum(1 for _ in JournalReader(journal).frames()) == 1


def test_a_killed_client_may_be_down_and_a_started_one_may_not(tmp_path: Path) -> None:
    client = Client("consumer-1", "workloads.consumer", tmp_path, tmp_path / "log")
    processes: list[Process] = []

    def start(_name: str, timeout_s: float) -> None:
        def process(*_: object, **__: object) -> Process:
            processes.append(Process())
            return processes[-1]

        client.start(HEADER, process)

    steps = ClientSteps(tmp_path, [client], start)
    start("consumer-1", 1.0)
    JournalWriter(tmp_path / "consumer-1.journal", HEADER)
    with (tmp_path / "consumer-1.journal").open("ab") as torn:
        torn.write(b"half a frame")
    assert steps.kill_client("consumer-1") == -9
    reader = JournalReader(tmp_path / "consumer-1.journal")
    assert (list(reader.frames()), reader.torn_bytes) == ([], 0)
    client.check()
    assert not steps.runs("consumer-1")
    steps.start_client("consumer-1", 1.0)
    assert (steps.runs("consumer-1"), steps.life_of("consumer-1")) == (True, 1)
    assert not steps.works("consumer-1")
    assert not client.is_down
