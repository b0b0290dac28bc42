"""Of what consumers get, the relay keeps the headers of whole batches, and nothing of any record."""

from __future__ import annotations

from typing import Any

import pytest
from client_frames import TOPIC, TOPIC_ID, Traffic, as_relayed, frame
from evidence_builders import batch
from kafka.protocol.consumer import FetchResponse

from cluster.relay.decoding import Decoder
from cluster.relay.fetched import VERSION_MAX, VERSION_MIN, read_fetch_answer

MARKER = b"the secret of a payload"
VERSIONS = range(VERSION_MIN, VERSION_MAX + 1)


def answer(version: int, *partitions: tuple[int, int, bytes | None], topics: int = 2) -> bytes:
    """A framed answer with these partitions (number, HW, records) in each topic, and all that a version may have."""
    kind = FetchResponse.FetchableTopicResponse
    data = kind.PartitionData
    items = [
        data(
            partition_index=number, error_code=0, high_watermark=high_watermark, last_stable_offset=0,
            log_start_offset=0, preferred_read_replica=-1, records=records,
            diverging_epoch=data.EpochEndOffset(epoch=3, end_offset=4),
            aborted_transactions=[data.AbortedTransaction(producer_id=7, first_offset=at) for at in range(number)],
        )
        for number, high_watermark, records in partitions
    ]  # fmt: skip
    named: dict[str, Any] = {"topic_id": TOPIC_ID} if version >= 13 else {"topic": TOPIC}
    responses = [kind(partitions=items, **named) for _ in range(topics)]
    return frame(FetchResponse(throttle_time_ms=0, error_code=0, session_id=5, responses=responses), version, 9)


def records(base_offset: int, count: int = 2) -> bytes:
    return batch(base_offset, [(None, MARKER, ()) for _ in range(count)])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("piece_bytes", [1, 60, 1 << 20])
def test_the_headers_of_whole_batches_are_kept_and_no_payload(version: int, piece_bytes: int) -> None:
    whole, cut = records(3) + records(5, 200), records(205)
    for left in (len(cut) - 1, 61, 60, 12, 0):  # where the last batch is cut
        got = answer(version, (0, 9, whole + cut[:left]), (1, 0, None), (2, 8, records(7)))
        kept = as_relayed(version, got, piece_bytes)
        assert MARKER not in kept
        assert int.from_bytes(kept[:4], "big") == len(kept) - 4
        found = read_fetch_answer(version, kept)
        assert found is not None
        assert [(one.partition, one.high_watermark) for one in found] == [(0, 9), (1, 0), (2, 8)] * 2
        assert [one.heads for one in found[:3]] == [
            [whole[:61], whole[len(records(3)) :][:61]], [], [records(7)[:61]],
        ]  # fmt: skip
        assert {(one.name, one.topic_id) for one in found} == {(None, TOPIC_ID) if version >= 13 else (TOPIC, None)}


@pytest.mark.parametrize("version", [3, VERSION_MAX + 1])
def test_an_answer_of_an_unknown_version_is_counted_and_nothing_of_it_is_kept(version: int) -> None:
    got = answer(min(max(version, VERSION_MIN), VERSION_MAX), (0, 9, records(3)))
    kept = as_relayed(version, got)
    assert len(kept) == 8
    assert read_fetch_answer(version, kept) is None


def test_batches_of_before_kafka_0_11_are_counted() -> None:
    old = bytearray(records(3))
    old[16] = 1
    traffic, decoder = Traffic(), Decoder(b"k" * 32)
    traffic.fetch(bytes(old), high_watermark=5)
    assert [row for entry in traffic.entries for row in decoder.feed(entry)] == []
    assert decoder.undecoded == {"FetchResponse version 11": 1}


@pytest.mark.parametrize("version", [VERSION_MIN, 11, 12, VERSION_MAX])
def test_an_answer_that_ends_early_is_counted(version: int) -> None:
    got = answer(version, (0, 9, records(3)))
    for size in range(8, len(got)):
        short = (size - 4).to_bytes(4, "big") + got[4:size]
        assert read_fetch_answer(version, as_relayed(version, short)) is None
