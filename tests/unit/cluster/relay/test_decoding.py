"""What clients sent and got becomes rows, each send once, whatever happened to its answers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from client_frames import TOPIC, Traffic, cut_up
from evidence_builders import batch

from cluster.relay.decoding import Decoder, WireRow, sequence_of
from cluster.relay.spool import SpoolEntry
from ebbtide.logs.batches import whole_batches

KEY = b"k" * 32


def rows_of(entries: Sequence[SpoolEntry], decoder: Decoder | None = None) -> list[WireRow]:
    decoder = decoder or Decoder(KEY)
    rows = [row for entry in entries for row in decoder.feed(entry)]
    return [*rows, *decoder.finish()]


def records(*values: bytes, producer_id: int = -1, sequence: int = -1, base_offset: int = 0) -> bytes:
    """A batch of these values; with a producer id it is that of an idempotent producer."""
    producer = (producer_id, 0 if producer_id >= 0 else -1, sequence)
    return batch(base_offset, [(None, value, ()) for value in values], producer=producer)


def sends(rows: Sequence[WireRow]) -> list[tuple[object, ...]]:
    return [(row["status"], row["offset"]) for row in rows if row["kind"] == "produce"]


def test_each_record_of_an_acked_batch_is_a_row_with_its_offset_and_no_payload() -> None:
    traffic = Traffic()
    traffic.produce(records(b"one", b"two"), at=40)
    first, second = rows_of(traffic.entries)
    assert (first["client"], first["acks"], first["topic"], first["partition"]) == ("orders-1", 1, TOPIC, 0)
    assert sends([first, second]) == [("acked", 40), ("acked", 41)]
    assert first["digest"] != second["digest"]
    assert not any(isinstance(value, bytes) for value in first.values())


def test_one_payload_has_one_digest_wherever_it_is_and_however_it_is_compressed() -> None:
    plain, packed = Traffic(), Traffic()
    plain.produce(records(b"one"), at=1)
    packed.produce(batch(0, [(None, b"one", ())], codec=1), at=9)
    assert [row["digest"] for row in rows_of(plain.entries)] == [row["digest"] for row in rows_of(packed.entries)]


def test_a_send_whose_answer_never_passed_is_unknown() -> None:
    traffic = Traffic()
    traffic.produce(records(b"one"))
    traffic.end(1)
    (row,) = rows_of(traffic.entries)
    assert (row["status"], row["offset"], row["error"]) == (
        "unknown",
        None,
        "the connection ended before the answer",
    )


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_retry_after_a_lost_answer_is_the_same_send(idempotent: bool) -> None:
    sent = records(b"one", producer_id=7, sequence=3) if idempotent else records(b"one")
    traffic = Traffic()
    traffic.produce(sent)
    traffic.end(1)
    traffic.produce(sent, connection=2, at=5)
    (row,) = rows_of(traffic.entries)
    assert sends([row]) == [("acked", 5)]
    assert row["asked_ns"] == 1  # when it was sent first


def test_a_retry_that_is_acked_before_the_end_of_the_first_connection_is_the_same_send() -> None:
    traffic, sent = Traffic(), records(b"one", producer_id=7, sequence=3)
    traffic.produce(sent)
    traffic.produce(sent, connection=2, at=5)
    traffic.end(1)
    assert sends(rows_of(traffic.entries)) == [("acked", 5)]


def test_a_batch_that_an_idempotent_producer_got_acked_twice_is_one_send() -> None:
    traffic, sent = Traffic(), records(b"one", producer_id=7, sequence=3)
    traffic.produce(sent, at=5)
    traffic.produce(sent, at=5)
    assert sends(rows_of(traffic.entries)) == [("acked", 5)]


def test_one_payload_that_was_acked_twice_without_sequences_is_two_sends() -> None:
    traffic = Traffic()
    traffic.produce(records(b"one"), at=5)
    traffic.produce(records(b"one"), at=6)
    assert sends(rows_of(traffic.entries)) == [("acked", 5), ("acked", 6)]


def test_a_deposed_leader_that_refused_may_have_appended_and_the_new_leader_acks_the_same_send() -> None:
    traffic, sent = Traffic(), records(b"one")
    traffic.produce(sent, at=-1, error=6)
    assert sends(rows_of(traffic.entries)) == [("unknown", None)]
    traffic.produce(sent, connection=2, at=2)
    assert sends(rows_of(traffic.entries)) == [("acked", 2)]


def test_two_sends_with_one_correlation_id_are_both_kept_where_the_answers_are_recorded_after_both() -> None:
    traffic = Traffic()
    correlation = traffic.produce(records(b"one"))
    traffic._correlation -= 1
    traffic.produce(records(b"two"))
    for at in (5, 6):
        traffic.produced(1, correlation, at)
    assert sends(rows_of(traffic.entries)) == [("acked", 5), ("acked", 6)]


def test_a_batch_that_was_certainly_refused_is_failed() -> None:
    traffic = Traffic()
    traffic.produce(records(b"one"), acks=-1, at=-1, error=19)
    (row,) = rows_of(traffic.entries)
    assert (row["status"], row["error"]) == ("failed", "NOT_ENOUGH_REPLICAS")


def test_a_send_with_acks_0_is_unknown_and_the_answers_after_it_are_its_successors() -> None:
    traffic = Traffic()
    traffic.produce(records(b"none"), acks=0)
    traffic.produce(records(b"one"), at=5)
    unknown, acked = rows_of(traffic.entries)
    assert sends([unknown, acked]) == [("unknown", None), ("acked", 5)]
    assert unknown["error"] == "acks=0, which no broker answers"


def test_a_transaction_that_was_aborted_says_so_and_its_records_name_it() -> None:
    traffic = Traffic()
    traffic.produce(records(b"one", producer_id=7, sequence=0), acks=-1, at=5, transactional_id="copier")
    traffic.end_transaction(commits=False)
    sent, ended = rows_of(traffic.entries)
    assert (sent["transactional_id"], sent["producer_id"], sent["sequence"]) == ("copier", 7, 0)
    assert (ended["kind"], ended["commits"], ended["status"], ended["producer_id"]) == ("end-txn", False, "acked", 7)


def test_a_fetched_batch_that_is_cut_is_no_row_and_the_one_below_the_asked_offset_is() -> None:
    traffic = Traffic()
    whole, cut = records(b"one", b"two", base_offset=3), records(b"three", base_offset=5)[:-1]
    traffic.fetch(whole + cut, high_watermark=6)
    (row,) = rows_of(traffic.entries)
    assert (row["kind"], row["offset"], row["last_offset"], row["high_watermark"]) == ("fetch", 3, 4, 6)


def test_a_fetch_session_goes_on_at_another_leader_with_a_connection_of_its_own() -> None:
    traffic = Traffic()
    traffic.fetch(records(b"one", base_offset=3), high_watermark=4)
    traffic.end(1)
    traffic.fetch(records(b"two", base_offset=4), high_watermark=5, connection=2)
    assert [(row["connection"], row["offset"]) for row in rows_of(traffic.entries)] == [(1, 3), (2, 4)]


def test_topic_ids_get_the_names_that_the_clients_metadata_had() -> None:
    traffic = Traffic()
    traffic.metadata()
    traffic.produce(records(b"one"), at=5, version=13)
    traffic.fetch(records(b"one"), high_watermark=1, version=13)
    assert {row["topic"] for row in rows_of(traffic.entries)} == {TOPIC}


def test_a_topic_id_without_a_name_stays_an_id() -> None:
    traffic = Traffic()
    traffic.produce(records(b"one"), at=5, version=13)
    (row,) = rows_of(traffic.entries)
    assert row["topic"] == "AAAAAAAAAAAAAAAAAAAABw"


def test_commits_are_acked_failed_or_unknown() -> None:
    traffic = Traffic()
    for error in (0, 22, None):
        traffic.commit(9, error=error)
    rows = rows_of(traffic.entries)
    assert [(row["status"], row["offset"], row["group"]) for row in rows] == [
        ("acked", 9, "g"),
        ("failed", 9, "g"),
        ("unknown", 9, "g"),
    ]


def test_what_cannot_be_decoded_is_counted_by_what_it_is() -> None:
    traffic, decoder = Traffic(), Decoder(KEY)
    newer = bytearray(frame_of_produce())
    newer[6:8] = (99).to_bytes(2, "big")
    traffic.add(1, "request", bytes(newer))
    traffic.produce(b"\0" * 70, at=1)
    assert rows_of(traffic.entries, decoder) == []
    assert decoder.undecoded == {"ProduceRequest version 99": 1, "batches of Produce": 1}


def frame_of_produce() -> bytes:
    traffic = Traffic()
    traffic.produce(records(b"one"))
    return traffic.entries[0].data


@pytest.mark.parametrize("size", [1, 7, 64])
def test_frames_that_came_in_pieces_make_the_same_rows(size: int) -> None:
    traffic = Traffic()
    traffic.metadata()
    traffic.produce(records(b"one", b"two"), at=4)
    traffic.fetch(records(b"one", base_offset=4), high_watermark=6)
    traffic.commit(5)
    times = ("asked_ns", "done_ns")
    plain = [{k: v for k, v in row.items() if k not in times} for row in rows_of(traffic.entries)]
    cut = [{k: v for k, v in row.items() if k not in times} for row in rows_of(cut_up(traffic.entries, size))]
    assert cut == plain
    assert len(plain) == 4


def test_a_record_of_a_compacted_batch_has_the_sequence_that_it_was_sent_with() -> None:
    (sent,) = whole_batches(records(b"one", b"two", b"three", producer_id=7, sequence=2**31 - 1, base_offset=40))
    assert [sequence_of(sent, offset) for offset in (40, 42)] == [2**31 - 1, 1]
    (plain,) = whole_batches(records(b"one"))
    assert sequence_of(plain, 0) is None
