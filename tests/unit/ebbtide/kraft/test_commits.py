"""Only what a majority of the controllers has surely flushed, in the newest epoch, counts as committed."""

from __future__ import annotations

from pathlib import Path

import evidence_builders as build
import pytest

from ebbtide.kraft.commits import SETTLED_NS, CommitWatch, has_batch
from ebbtide.kraft.follower import BatchId, MetadataFollower
from ebbtide.kraft.quorum import QuorumLogs


def log(*epochs: int, crc: int | None = None) -> list[BatchId]:
    """A log of one record a batch; the last batch has this crc, if any is given."""
    return [
        BatchId(
            segment=0,
            position=at,
            size=1,
            base_offset=at,
            next_offset=at + 1,
            epoch=epoch,
            crc=at if crc is None or at < len(epochs) - 1 else crc,
        )
        for at, epoch in enumerate(epochs)
    ]


def committed(*looks: dict[int, list[BatchId]], apart_ns: int = SETTLED_NS) -> list[tuple[int, tuple[int, ...]]]:
    """The offsets that three controllers committed in these looks, with the controllers that had them."""
    watch = CommitWatch(3)
    for at, logs in enumerate(looks):
        watch.observe(logs, at * apart_ns)
    return [(one.base_offset, one.controllers) for one in watch.committed]


def test_a_batch_counts_once_a_majority_has_a_later_one_behind_it() -> None:
    first, second = log(1), log(1, 1)
    assert committed({100: first, 101: first, 102: []}) == []
    assert committed({100: first, 101: first, 102: []}, {100: second, 101: first, 102: []}) == []
    assert committed({100: first, 101: first, 102: []}, {100: second, 101: second, 102: []}) == [(0, (100, 101))]


def test_a_look_into_the_middle_of_a_write_proves_no_flush() -> None:
    looks = ({100: log(1), 101: log(1), 102: []}, {100: log(1, 1), 101: log(1, 1), 102: []})
    assert committed(*looks, apart_ns=SETTLED_NS - 1) == []


def test_a_batch_of_an_older_epoch_on_a_majority_may_still_be_undone() -> None:
    """The third controller has a newer epoch: it may lead, without the batch."""
    newer = log(1, 3)
    assert (
        committed({100: log(1, 2), 101: log(1, 2), 102: newer}, {100: log(1, 2, 2), 101: log(1, 2, 2), 102: newer})
        == []
    )


def test_a_controller_that_lost_its_log_no_longer_has_the_batch() -> None:
    watch = CommitWatch(3)
    for at, logs in enumerate(
        [
            {100: log(1, 1), 101: log(1), 102: []},
            {100: log(1, 1, 1), 101: log(1), 102: []},
            {100: log(1, crc=9), 101: log(1), 102: []},
            {100: log(1, crc=9), 101: log(1, 1), 102: []},
        ]
    ):
        watch.observe(logs, at * SETTLED_NS)
    assert watch.committed == []


@pytest.mark.parametrize(("epoch", "crc", "there"), [(1, 1, True), (2, 1, False), (1, 7, False)])
def test_a_batch_is_known_by_its_offset_epoch_and_checksum(epoch: int, crc: int, there: bool) -> None:
    batch = log(1, epoch, crc=crc)[1]
    assert has_batch(log(1, 1), batch) is there


def test_the_logs_of_a_quorum_are_watched_while_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0]
    monkeypatch.setattr("time.time_ns", lambda: now[0])
    folders = {node: tmp_path / str(node) for node in (100, 101, 102)}
    logs = QuorumLogs(folders)
    for count in (1, 2):
        for folder in folders.values():
            folder.mkdir(exist_ok=True)
            batches = [build.metadata_batch(at, build.feature("metadata.version", 7)) for at in range(count)]
            (folder / build.segment_name(0)).write_bytes(b"".join(batches))
        now[0] += SETTLED_NS
        logs.poll()
    [batch] = logs.committed
    assert (batch.base_offset, batch.next_offset, batch.controllers) == (0, 1, (100, 101, 102))
    follower = MetadataFollower(folders[100])
    follower.poll()
    assert has_batch(follower.batches, batch)
