"""Several controllers' logs followed together: the furthest is believed, by epoch before length."""

from __future__ import annotations

from pathlib import Path

import evidence_builders as build

from ebbtide.kraft.quorum import QuorumLogs


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
