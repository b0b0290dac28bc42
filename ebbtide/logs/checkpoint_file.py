"""The small files in a log directory: checkpoints of offsets and of leader epochs, and meta.properties."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ebbtide.logs.segments import TopicPartition
from ebbtide.untrusted.files import UnreadableFile, read_text

HIGH_WATERMARKS = "replication-offset-checkpoint"
"""The file with the HW of every replica, as the broker last wrote it."""

ANSWERED_HIGH_WATERMARKS = "answered-high-watermarks"
"""The file, in the same format, with the HWs that a broker answered for its replicas at the end of a run.

It is Ebbtide's, in a record only, and counts instead of the broker's own file.
"""

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
"""The file with the offset of every log up to which the broker has certainly fsynced it."""

LEADER_EPOCHS = "leader-epoch-checkpoint"
"""The file in a replica's folder with the offset at which each leader epoch begins in its log."""


_SHOWN = 60
"""So many characters of damaged text are shown."""


def read_checkpoint(path: Path) -> dict[TopicPartition, int]:
    """Return the offsets of a checkpoint file.

    Raises `ValueError` if the file is missing, damaged, or not a checkpoint file.
    """
    offsets = {}
    for number, line in enumerate(_lines_of(_text_of(path)), 3):
        try:
            topic, partition, offset = line.split()
            offsets[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError:
            raise ValueError(f"line {number} is no topic, partition and offset: {line[:_SHOWN]!r}") from None
    return offsets


def read_leader_epochs(path: Path) -> dict[int, int]:
    """Return where each leader epoch begins by a `leader-epoch-checkpoint`. Kafka makes the file empty.

    Raises `ValueError` if the file is missing, damaged, or not a checkpoint file.
    """
    text = _text_of(path)
    starts = {}
    for number, line in enumerate(_lines_of(text) if text else (), 3):
        try:
            epoch, offset = line.split()
            starts[int(epoch)] = int(offset)
        except ValueError:
            raise ValueError(f"line {number} is no leader epoch and offset: {line[:_SHOWN]!r}") from None
    return starts


def _text_of(path: Path) -> str:
    try:
        return read_text(path)
    except UnreadableFile as error:
        raise ValueError(f"{error.what}: {error.got}") from None


def _lines_of(text: str) -> list[str]:
    """Return the lines of a checkpoint file after its head."""
    if not text:
        raise ValueError("it is empty")
    version, *rest = text.splitlines()
    count, *lines = rest or [""]
    if version != "0":
        raise ValueError(f"version {version[:_SHOWN]!r}, known is '0'")
    if count != str(len(lines)):
        raise ValueError(f"{len(lines)} lines, though it says {count[:_SHOWN]!r}")
    return lines


def checkpoint_text(offsets: Mapping[TopicPartition, int]) -> str:
    """Return the text of a checkpoint file with these offsets."""
    lines = [f"{at.topic} {at.partition} {offset}" for at, offset in offsets.items()]
    return "".join(f"{line}\n" for line in ("0", str(len(lines)), *lines))


META_PROPERTIES = "meta.properties"


def cluster_id_in(data_dir: Path) -> str | None:
    """Return the cluster id of a log directory; None if it is not formatted or cannot be read."""
    return _value_in(data_dir, "cluster.id")


def directory_id_in(data_dir: Path) -> str | None:
    """Return the directory id of a log directory, None as for `cluster_id_in`; releases before 3.7 have none."""
    return _value_in(data_dir, "directory.id")


def _value_in(data_dir: Path, key: str) -> str | None:
    try:
        lines = read_text(data_dir / META_PROPERTIES).splitlines()
    except UnreadableFile:
        return None
    # Kafka writes no escapes here: both ids are URL-safe base64.
    return dict(line.split("=", 1) for line in lines if "=" in line).get(key)
