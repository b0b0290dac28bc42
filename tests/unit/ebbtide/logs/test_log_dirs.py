"""A broker's log directories: the replicas in them, and their checkpoint files, which may be damaged."""

from __future__ import annotations

from pathlib import Path

import evidence_builders as build
import pytest

from ebbtide.logs.checkpoint_file import RECOVERY_POINTS, checkpoint_text, read_checkpoint
from ebbtide.logs.segments import TopicPartition, log_dir_of, partition_folders, replica_folder


def test_what_is_written_is_read(tmp_path: Path) -> None:
    offsets = {TopicPartition("t", 0): 5, TopicPartition("u", 1): 0}
    (tmp_path / RECOVERY_POINTS).write_text(checkpoint_text(offsets))
    assert read_checkpoint(tmp_path / RECOVERY_POINTS) == offsets


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it is empty"),
        ("1\n0\n", "version '1', known is '0'"),
        ("0\n", "0 lines, though it says ''"),
        ("0\n2\nt 0 1\n", "1 lines, though it says '2'"),
        ("0\n1\nt 0\n", "line 3 is no topic, partition and offset: 't 0'"),
        ("0\n1\nt 0 x\n", "line 3 is no topic, partition and offset: 't 0 x'"),
        ("0\nx\n", "0 lines, though it says 'x'"),
        ("\0\0\0", "version"),
        ("\xff", "the file is not UTF-8"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / RECOVERY_POINTS).write_text(text, "latin-1")
    with pytest.raises(ValueError, match=says):
        read_checkpoint(tmp_path / RECOVERY_POINTS)


def test_a_file_that_is_not_there_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot read the file: No such file"):
        read_checkpoint(tmp_path / RECOVERY_POINTS)


T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
FUTURE = "t-0.0123456789abcdef0123456789abcdef-future"


@pytest.fixture
def dirs(tmp_path: Path) -> list[Path]:
    """Directory 1 has t-0, directory 2 has t-1."""
    made = [tmp_path / "one", tmp_path / "two"]
    build.write_log(made[0] / "t-0", build.plain_batch(0, b"1"))
    build.write_log(made[1] / "t-1", build.plain_batch(0, b"1"))
    return made


def test_the_replicas_of_all_directories_are_the_nodes(dirs: list[Path]) -> None:
    assert partition_folders(*dirs) == {T0: dirs[0] / "t-0", T1: dirs[1] / "t-1"}
    assert replica_folder(dirs, T1) == dirs[1] / "t-1"
    assert not replica_folder(dirs, TopicPartition("t", 7)).exists()


def test_a_future_replica_is_not_the_replica(dirs: list[Path]) -> None:
    build.write_log(dirs[1] / FUTURE, build.plain_batch(0, b"1"))
    assert partition_folders(*dirs)[T0] == dirs[0] / "t-0"


def test_a_replica_is_in_a_directory_once_nothing_of_it_moves(dirs: list[Path]) -> None:
    assert (log_dir_of(dirs, T0), log_dir_of(dirs, T1)) == (1, 2)
    (dirs[1] / FUTURE).mkdir()
    assert log_dir_of(dirs, T0) is None
    (dirs[1] / FUTURE).rename(dirs[1] / "t-0")
    assert log_dir_of(dirs, T0) is None, "two copies: nobody knows which one is the replica"
    (dirs[0] / "t-0").rename(dirs[0] / "t-0.0123456789abcdef0123456789abcdef-delete")
    assert log_dir_of(dirs, T0) == 2
