"""Coverage facts of clients: what their events and sends come to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from records import as_record

from analysis.judge.coverage.workload_facts import count
from ebbtide.errors import UsageError
from ebbtide.record.clients import CLIENTS_DIR, ClientEvent, read_client_events, write_client_events
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import FinalOffsets, Manifest, ProducerSetup, write_manifest
from ebbtide.record.tables import ANOMALY_SCHEMA, POLLS, SENDS


def _send(value: int, **fields: Any) -> dict[str, Any]:
    usual = {
        "topic": "t",
        "partition": 0,
        "value": value,
        "producer": 1,
        "sequence": value,
        "acks": -1,
        "status": "acked",
        "sent_ns": 1,
    }
    return dict.fromkeys(SENDS.names) | usual | fields


def _record(folder: Path, sends: list[dict[str, Any]], lost: list[int] | None = None) -> Path:
    setups = {"1": ProducerSetup(acks=-1), "2": ProducerSetup(acks=-1, idempotent=True)}
    setups["3"] = ProducerSetup(acks=-1, idempotent=True, transactional=True)
    write_manifest(RecordFolder(folder), Manifest(run_id="r", producers=setups))
    pq.write_table(pa.Table.from_pylist(sends, schema=SENDS), folder / "sends.parquet")
    if lost is not None:
        (folder / "anomalies").mkdir()
        rows = [dict.fromkeys(ANOMALY_SCHEMA.names) | {"kind": "lost", "value": value} for value in lost]
        # A value that vanished is not one that is lost.
        rows.append(dict.fromkeys(ANOMALY_SCHEMA.names) | {"kind": "vanished", "value": 30})
        pq.write_table(pa.Table.from_pylist(rows, schema=ANOMALY_SCHEMA), folder / "anomalies" / "a.parquet")
    return folder


def test_a_record_that_knows_of_no_clients_events_leaves_their_facts_out(tmp_path: Path) -> None:
    assert "offsets-reset" not in count(as_record(tmp_path))
    assert read_client_events(RecordFolder(tmp_path)) is None


def test_records_acked_to_other_client_libraries_are_counted_by_library(tmp_path: Path) -> None:
    setups = {"1": ProducerSetup(acks=-1, client="java"), "2": ProducerSetup(acks=-1, client="librdkafka")}
    write_manifest(RecordFolder(tmp_path), Manifest(run_id="r", producers=setups))
    sends = [_send(1, producer=1), _send(2, producer=2), _send(3, producer=2), _send(4, producer=1, status="unknown")]
    pq.write_table(pa.Table.from_pylist(sends, schema=SENDS), tmp_path / "sends.parquet")
    facts = count(as_record(tmp_path))
    assert (facts["acked-by-java"], facts["acked-by-librdkafka"]) == (1, 2)


def test_a_client_without_an_event_makes_the_facts_0(tmp_path: Path) -> None:
    write_client_events(RecordFolder(tmp_path), "consumer-1", [])
    facts = count(as_record(tmp_path))
    assert facts["offsets-reset"] == facts["transactions-committed"] == 0
    assert "offsets-reset" in facts


def test_events_are_counted_by_what_they_are(tmp_path: Path) -> None:
    write_client_events(
        RecordFolder(tmp_path),
        "producer-1",
        [
            ClientEvent(event="transaction", at_ns=1, outcome="committed"),
            ClientEvent(event="transaction", at_ns=2, outcome="aborted"),
            ClientEvent(event="transaction", at_ns=3, outcome="unknown"),
            ClientEvent(event="fenced", at_ns=4),
            ClientEvent(event="replaced", at_ns=5),
        ],
    )
    write_client_events(
        RecordFolder(tmp_path),
        "consumer-1",
        [
            ClientEvent(event="truncation", at_ns=1, offset=9, to=3),
            ClientEvent(event="out-of-range", at_ns=2, offset=3, to=5),
            ClientEvent(event="no-offset", at_ns=3, to=0),
        ],
    )
    facts = count(as_record(tmp_path))
    seen = {name: count for name, count in facts.items() if count}
    assert seen == {
        "transactions-committed": 1,
        "transactions-aborted": 1,
        "transactions-unknown": 1,
        "producers-fenced": 1,
        "producers-replaced": 1,
        "truncations-detected": 1,
        "offsets-out-of-range": 1,
        "offsets-reset": 2,
        "offsets-reset-to-earlier": 1,
        "offsets-reset-to-later": 1,
    }


def test_a_members_own_joining_is_no_rebalance(tmp_path: Path) -> None:
    joined = ClientEvent(event="assigned", at_ns=1, partitions=("t-0",))
    left = ClientEvent(event="revoked", at_ns=2)
    write_client_events(RecordFolder(tmp_path), "consumer-1", [left, joined, left, joined])
    write_client_events(RecordFolder(tmp_path), "consumer-2", [joined])
    assert count(as_record(tmp_path))["group-rebalances"] == 1


def test_acked_records_are_counted_by_acks_and_plain_idempotence(tmp_path: Path) -> None:
    sends = [_send(1, acks=0), _send(2, acks=1), _send(3), _send(4, status="failed"), _send(5, producer=2)]
    facts = count(as_record(_record(tmp_path, [*sends, _send(6, producer=3)])))
    words = ("acked-with-acks-0", "acked-with-acks-1", "acked-with-acks-all", "acked-idempotent")
    assert [facts[word] for word in words] == [1, 1, 3, 1]


def _final_read(record: Path, values: list[int | None], *, log_start: int = 0) -> None:
    usual = {"topic": "t", "partition": 0, "offset": 0, "session": 1, "isolation": "read_uncommitted", "polled_ns": 1}
    rows = [dict.fromkeys(POLLS.names) | usual | {"consumer": 9, "value": value} for value in values]
    # Another consumer read a record that is gone since.
    rows.append(dict.fromkeys(POLLS.names) | usual | {"consumer": 1, "value": 3})
    pq.write_table(pa.Table.from_pylist(rows, schema=POLLS), record / "polls.parquet")
    ends = {"t-0": FinalOffsets(log_start=log_start, high_watermark=10)}
    write_manifest(RecordFolder(record), Manifest(run_id="r", final_consumer=9, final_offsets=ends))


def test_what_was_sent_with_acks_0_is_gone_if_the_final_read_does_not_have_it(tmp_path: Path) -> None:
    sends = [*(_send(value, acks=0) for value in (1, 2, 3, 4)), _send(5), _send(6, acks=0, status="failed")]
    record = _record(tmp_path, sends)
    _final_read(record, [4, 1, 1, None, 70])
    assert count(as_record(record))["acks-0-gone"] == 2


@pytest.mark.parametrize("log_start", [None, 1])
def test_without_a_whole_final_read_it_is_not_known_what_is_gone_of_acks_0(
    tmp_path: Path, log_start: int | None
) -> None:
    record = _record(tmp_path, [_send(1, acks=0)])
    if log_start is not None:
        _final_read(record, [], log_start=log_start)
    assert "acks-0-gone" not in count(as_record(record))


def test_where_nothing_was_sent_with_acks_0_nothing_of_it_is_gone(tmp_path: Path) -> None:
    record = _record(tmp_path, [_send(1)])
    _final_read(record, [])
    assert count(as_record(record))["acks-0-gone"] == 0


def test_a_transaction_is_torn_when_some_of_its_acked_records_are_lost_and_others_are_not(tmp_path: Path) -> None:
    sends = [_send(10 * txn + at, txn=txn, txn_outcome="committed") for txn in (1, 2, 3) for at in range(3)]
    # Not acked, so it need not be lost for the loss to be whole.
    sends.append(_send(14, txn=1, txn_outcome="committed", status="unknown"))
    sends += [_send(40, txn=4, txn_outcome="aborted"), _send(41, txn=4, txn_outcome="aborted")]
    facts = count(as_record(_record(tmp_path, sends, lost=[10, 11, 12, 21, 40])))
    assert (facts["transactions-lost-whole"], facts["transactions-torn"]) == (1, 1)


def test_what_is_lost_is_not_known_without_anomalies(tmp_path: Path) -> None:
    assert "transactions-torn" not in count(as_record(_record(tmp_path, [_send(1)])))


def test_damaged_events_are_refused_with_their_file(tmp_path: Path) -> None:
    (tmp_path / CLIENTS_DIR).mkdir()
    (tmp_path / CLIENTS_DIR / "consumer-1.jsonl").write_text('{"event":"assigned"}\n')
    with pytest.raises(UsageError) as caught:
        read_client_events(RecordFolder(tmp_path))
    assert "consumer-1.jsonl" in str(caught.value.where)
