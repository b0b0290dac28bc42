"""A snapshot is a file that somebody else may have written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ebbtide.errors import UsageError
from ebbtide.snapshot.model import read_snapshot, write_snapshot

WHOLE: dict[str, Any] = {
    "snapshot_version": 1,
    "taken_at": "2026-11-24T09:00:00+00:00",
    "cluster_id": "made",
    "brokers": [{"id": 1, "address": "b1:9092", "metadata_versions": [7, 30]}],
    "features": {"metadata.version": 30},
    "topics": [
        {"name": "t", "partitions": [{"index": 0, "leader": 1, "replicas": [1, 2], "isr": [1]}], "configs": {}},
    ],
}


def written(folder: Path, **changes: Any) -> Path:
    path = folder / "cluster.json"
    path.write_text(json.dumps({**WHOLE, **changes}))
    return path


def test_what_was_written_reads_back_the_same(tmp_path: Path) -> None:
    snapshot = read_snapshot(written(tmp_path))
    write_snapshot(tmp_path / "again.json", snapshot)
    assert read_snapshot(tmp_path / "again.json") == snapshot


def partition(**changes: Any) -> list[dict[str, Any]]:
    return [{"name": "t", "partitions": [{"index": 0, "leader": 1, "replicas": [1, 2], "isr": [1], **changes}]}]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"snapshot_version": 2}, "newer Ebbtide"),
        ({"snapshot_version": "one"}, "does not describe a cluster"),
        ({"topics": 3}, "does not describe a cluster"),
        ({"topics": partition(replicas=[1, 1])}, "replicas"),
        ({"topics": partition(replicas=[])}, "replicas"),
        ({"topics": partition(replicas=list(range(200)))}, "replicas"),
        ({"topics": partition(isr=[3])}, "ISR"),
        ({"topics": partition() * 2}, "two topics with one name"),
        ({"topics": [{"name": "a\x1b[2J", "partitions": [{}]}]}, "does not describe a cluster"),
        ({"topics": [{"name": "../t", "partitions": partition()[0]["partitions"]}]}, "a topic named"),
        ({"topics": [{"name": "t", "partitions": []}]}, "no partition"),
        ({"topics": [{**partition()[0], "configs": {"min.insync.replicas": "two"}}]}, "min.insync.replicas"),
        ({"topics": [{**partition()[0], "configs": {"retention.ms": "2"}}]}, "retention.ms"),
        ({"brokers": WHOLE["brokers"] * 2}, "two brokers with one id"),
        ({"features": {"metadata.version": 2**70}}, "64 bits"),
    ],
)
def test_a_file_that_no_cluster_wrote_is_one_error(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        read_snapshot(written(tmp_path, **changes))


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"snapshot_version": 1}'])
def test_bytes_that_are_no_snapshot_are_one_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "cluster.json"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="does not describe a cluster"):
        read_snapshot(path)


def test_a_file_that_does_not_exist_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_snapshot(tmp_path / "no.json")
