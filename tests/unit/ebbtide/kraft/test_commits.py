"""Of several controllers' logs the furthest is believed; what a majority surely acknowledged counts as committed."""

from __future__ import annotations

from pathlib import Path

import evidence_builders as build
import pytest

from ebbtide.kraft.commits import CommitWatch, has_batch
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


def committed(*looks: dict[int, list[BatchId]]) -> list[tuple[int, tuple[int, ...]]]:
    """The offsets that three controllers committed in these looks, with the controllers that had them."""
    watch = CommitWatch(3)
    for at, logs in enumerate(looks):
        watch.observe(logs, at)
    return [(one.base_offset, one.controllers) for one in watch.committed]


FIRST, SECOND = log(1), log(1, 1)
QUIET: dict[int, list[BatchId]] = {100: FIRST, 101: FIRST, 102: []}
"""100 leads, and 101 has all that it has."""


def test_a_batch_counts_once_a_majority_has_fetched_what_came_after_it() -> None:
    assert committed(QUIET, QUIET) == []
    assert committed(QUIET, QUIET, {100: SECOND, 101: FIRST, 102: []}) == []
    assert committed(QUIET, QUIET, {100: SECOND, 101: SECOND, 102: []}) == [(0, (100, 101))]


def test_two_batches_that_may_have_come_in_one_answer_prove_no_flush_of_the_first() -> None:
    """The leader may have had the second batch when the follower got the first one."""
    assert committed(QUIET, {100: SECOND, 101: SECOND, 102: []}) == []
    ahead = {100: SECOND, 101: FIRST, 102: []}
    assert committed(ahead, ahead, {100: SECOND, 101: SECOND, 102: []}) == []


def test_the_page_cache_of_one_controller_alone_proves_no_flush() -> None:
    watch = CommitWatch(1)
    for at, one in enumerate((FIRST, FIRST, SECOND, SECOND, log(1, 1, 1))):
        watch.observe({100: one}, at)
    assert watch.committed == []


def test_a_batch_of_an_older_epoch_on_a_majority_may_still_be_undone() -> None:
    """The third controller has a newer epoch: it may lead, without the batch."""
    quiet = {100: log(1, 2), 101: log(1, 2), 102: log(1)}
    assert committed(quiet, quiet, {100: log(1, 2, 2), 101: log(1, 2, 2), 102: log(1)}) == [(1, (100, 101))]
    assert committed(quiet, quiet, {100: log(1, 2, 2), 101: log(1, 2, 2), 102: log(1, 3)}) == []


def test_a_controller_that_lost_its_log_no_longer_has_the_batch() -> None:
    other = log(1, 1, crc=9)
    assert committed(QUIET, QUIET, {100: SECOND, 101: [], 102: []}, {100: SECOND, 101: other, 102: []}) == []
    lost = {100: log(1, crc=9), 101: SECOND, 102: []}
    assert committed(QUIET, QUIET, {100: SECOND, 101: FIRST, 102: []}, lost) == []


@pytest.mark.parametrize(("epoch", "crc", "there"), [(1, 1, True), (2, 1, False), (1, 7, False)])
def test_a_batch_is_known_by_its_offset_epoch_and_checksum(epoch: int, crc: int, there: bool) -> None:
    batch = log(1, epoch, crc=crc)[1]
    assert has_batch(log(1, 1), batch) is there


def test_the_logs_of_a_quorum_are_watched_while_they_are_written(tmp_path: Path) -> None:
    folders = {node: tmp_path / str(node) for node in (100, 101, 102)}
    logs = QuorumLogs(folders)
    for count in (1, 1, 2):
        for folder in folders.values():
            folder.mkdir(exist_ok=True)
            batches = [build.metadata_batch(at, build.feature("metadata.version", 7)) for at in range(count)]
            (folder / build.segment_name(0)).write_bytes(b"".join(batches))
        logs.poll()
    [batch] = logs.committed
    assert (batch.base_offset, batch.next_offset, batch.controllers) == (0, 1, (100, 101, 102))
    follower = MetadataFollower(folders[100])
    follower.poll()
    assert has_batch(follower.batches, batch)


def write(folder: Path, epoch: int, *levels: int) -> Path:
    folder.mkdir(exist_ok=True)
    batches = [
        build.metadata_batch(offset, build.feature("metadata.version", level), epoch=epoch)
        for offset, level in enumerate(levels)
    ]
    (folder / build.segment_name(0)).write_bytes(b"".join(batches))
    return folder


def test_a_deposed_controllers_longer_tail_is_not_believed(tmp_path: Path) -> None:
    deposed = write(tmp_path / "100", 1, 7, 8, 9)
    newer = write(tmp_path / "101", 2, 7, 20)
    assert QuorumLogs({100: deposed, 101: newer}).poll().features == {"metadata.version": 20}


def test_of_two_logs_of_one_epoch_the_longer_is_believed(tmp_path: Path) -> None:
    behind = write(tmp_path / "100", 1, 7)
    ahead = write(tmp_path / "101", 1, 7, 8)
    assert QuorumLogs({100: behind, 101: ahead}).poll().features == {"metadata.version": 8}


def test_before_any_log_is_there_nothing_is_known(tmp_path: Path) -> None:
    logs = QuorumLogs({100: tmp_path / "100", 101: tmp_path / "101"})
    assert logs.poll().partitions == {}
    write(tmp_path / "101", 1, 7)
    assert logs.poll().features == {"metadata.version": 7}
