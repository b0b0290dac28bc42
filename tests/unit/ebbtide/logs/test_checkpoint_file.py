"""A damaged checkpoint file is refused in words that say what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ebbtide.logs.checkpoint_file import RECOVERY_POINTS, checkpoint_text, read_checkpoint
from ebbtide.logs.segments import TopicPartition


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
