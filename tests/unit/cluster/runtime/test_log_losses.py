"""What a power loss took, by content; and the truncate method, which takes the most that it may."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from cluster.runtime.base import LogLoss
from cluster.runtime.disks import CLEAN_SHUTDOWN, LogCopies, common_prefix, cut_to_recovery_points
from ebbtide.errors import HarnessError
from ebbtide.logs.checkpoint_file import RECOVERY_POINTS


def _batch(base: int, count: int, fill: bytes = b"x") -> bytes:
    """A batch of magic 2 with a right checksum and opaque records."""
    from crc32c import crc32c

    checked = struct.pack(">hiqqqhii", 0, count - 1, 0, 0, -1, -1, -1, count) + fill * 40
    after_length = struct.pack(">ibI", 0, 2, crc32c(checked)) + checked
    return struct.pack(">qi", base, len(after_length)) + after_length


BATCH_BYTES = len(_batch(0, 10))


def _segment(data_dir: Path, partition: str, base: int, content: bytes) -> Path:
    folder = data_dir / partition
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{base:020}.log"
    path.write_bytes(content)
    for suffix in (".index", ".timeindex"):
        path.with_suffix(suffix).write_bytes(b"derived")
    return path


def _log(data_dir: Path, batches: int = 3) -> Path:
    return _segment(data_dir, "t-0", 0, b"".join(_batch(10 * number, 10) for number in range(batches)))


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


def _losses_after(data_dir: Path, change: object) -> dict[str, LogLoss]:
    before = LogCopies([data_dir], data_dir.parent / "aside")
    assert callable(change)
    change()
    return before.compare()


def test_a_log_that_came_back_whole_lost_nothing(data_dir: Path) -> None:
    _log(data_dir)
    [loss] = _losses_after(data_dir, lambda: None).values()
    assert (loss.lost_bytes, loss.leo_before, loss.leo_after) == (0, 30, 30)


def test_a_shortened_log_lost_its_tail(data_dir: Path) -> None:
    path = _log(data_dir)
    whole = path.read_bytes()
    [loss] = _losses_after(data_dir, lambda: path.write_bytes(whole[:BATCH_BYTES])).values()
    assert loss == LogLoss(
        bytes_before=3 * BATCH_BYTES,
        bytes_after=BATCH_BYTES,
        lost_bytes=2 * BATCH_BYTES,
        leo_before=30,
        leo_after=10,
    )


def test_zeros_in_place_of_the_tail_are_lost_though_the_size_is_the_same(data_dir: Path) -> None:
    path = _log(data_dir)
    zeroed = path.read_bytes()[: BATCH_BYTES + 7] + bytes(2 * BATCH_BYTES - 7)
    [loss] = _losses_after(data_dir, lambda: path.write_bytes(zeroed)).values()
    assert loss.bytes_after == loss.bytes_before
    assert BATCH_BYTES < loss.lost_bytes <= 2 * BATCH_BYTES
    assert loss.leo_after == 10


def test_a_log_that_vanished_lost_everything(data_dir: Path) -> None:
    path = _log(data_dir)
    [loss] = _losses_after(data_dir, lambda: (path.unlink(), path.parent)).values()
    assert (loss.lost_bytes, loss.bytes_after, loss.leo_after) == (3 * BATCH_BYTES, 0, 0)


def test_the_copies_are_released(data_dir: Path) -> None:
    _log(data_dir)
    before = LogCopies([data_dir], data_dir.parent / "aside")
    before.release()
    assert not (data_dir.parent / "aside").exists()


@pytest.mark.parametrize(
    ("first", "second", "length"),
    [(b"", b"", 0), (b"abc", b"", 0), (b"abc", b"abd", 2), (b"abc", b"abc", 3), (b"abc", b"abcd", 3)],
)
def test_the_common_prefix_is_counted_in_bytes(first: bytes, second: bytes, length: int, tmp_path: Path) -> None:
    (tmp_path / "1").write_bytes(first)
    (tmp_path / "2").write_bytes(second)
    assert common_prefix(tmp_path / "1", tmp_path / "2") == length


def test_a_difference_beyond_the_first_block_is_found(tmp_path: Path) -> None:
    content = bytearray(3 << 20)
    (tmp_path / "1").write_bytes(content)
    content[(2 << 20) + 5] = 1
    (tmp_path / "2").write_bytes(content)
    assert common_prefix(tmp_path / "1", tmp_path / "2") == (2 << 20) + 5


def _recovery_points(data_dir: Path, **points: int) -> None:
    lines = [f"t {partition.removeprefix('p')} {offset}" for partition, offset in points.items()]
    (data_dir / RECOVERY_POINTS).write_text("\n".join(["0", str(len(lines)), *lines, ""]))


def test_truncate_keeps_what_was_fsynced_and_nothing_else(data_dir: Path) -> None:
    path = _log(data_dir)
    _recovery_points(data_dir, p0=20)
    (data_dir / CLEAN_SHUTDOWN).touch()
    cut_to_recovery_points(data_dir)
    assert path.stat().st_size == 2 * BATCH_BYTES
    assert not path.with_suffix(".index").exists()
    assert not (data_dir / CLEAN_SHUTDOWN).exists()


def test_truncate_drops_later_segments_and_snapshots(data_dir: Path) -> None:
    first = _log(data_dir, batches=2)
    later = _segment(data_dir, "t-0", 20, _batch(20, 10))
    for offset in (10, 20, 30):
        (first.parent / f"{offset:020}.snapshot").touch()
    _recovery_points(data_dir, p0=10)
    cut_to_recovery_points(data_dir)
    assert first.stat().st_size == BATCH_BYTES
    assert not later.exists()
    assert [path.name for path in first.parent.glob("*.snapshot")] == [f"{10:020}.snapshot"]


def test_truncate_leaves_a_log_that_was_fsynced_whole(data_dir: Path) -> None:
    path = _log(data_dir)
    _recovery_points(data_dir, p0=30)
    cut_to_recovery_points(data_dir)
    assert path.stat().st_size == 3 * BATCH_BYTES
    assert path.with_suffix(".index").exists()


def test_truncate_empties_a_log_that_was_never_fsynced(data_dir: Path) -> None:
    path = _log(data_dir)
    cut_to_recovery_points(data_dir)
    assert path.stat().st_size == 0


def test_truncate_empties_every_log_while_the_checkpoint_is_as_the_broker_made_it(data_dir: Path) -> None:
    path = _log(data_dir)
    (data_dir / RECOVERY_POINTS).touch()
    cut_to_recovery_points(data_dir)
    assert path.stat().st_size == 0


def test_truncate_cuts_nothing_by_a_damaged_checkpoint(data_dir: Path) -> None:
    path = _log(data_dir)
    (data_dir / RECOVERY_POINTS).write_text("0\n2\nt 0 10\n")
    with pytest.raises(HarnessError, match="recovery points cannot be read"):
        cut_to_recovery_points(data_dir)
    assert path.stat().st_size == 3 * BATCH_BYTES


def test_truncate_leaves_the_metadata_log_alone(data_dir: Path) -> None:
    path = _segment(data_dir, "__cluster_metadata-0", 0, _batch(0, 10))
    cut_to_recovery_points(data_dir)
    assert path.stat().st_size == BATCH_BYTES
