"""Reads the file meta.properties of a log directory: the ids of its cluster and of the directory itself."""

from __future__ import annotations

from pathlib import Path

from ebbtide.untrusted.files import UnreadableFile, read_text

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
