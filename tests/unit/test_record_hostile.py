"""Files of a record that somebody else made: each is one clear error, and writing one follows no link out of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.record.clients import read_client_events
from harness.record.files import write_atomically
from harness.record.manifest import read_manifest
from harness.record.steps import read_steps

NO_JSON = [b'{"run_id": "\xff"}', b"[" * 100_000]


@pytest.mark.parametrize("content", NO_JSON, ids=["no UTF-8", "too deep"])
def test_what_is_no_json_is_one_clear_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "clients").mkdir()
    for name in ("manifest.json", "steps.jsonl", "clients/producer-1.jsonl"):
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match="not JSON"):
        read_manifest(tmp_path)
    with pytest.raises(UsageError, match=r"steps\.jsonl is damaged"):
        read_steps(tmp_path)
    with pytest.raises(UsageError, match="a client's events are damaged"):
        read_client_events(tmp_path)


def test_a_pipe_in_the_place_of_a_clients_events_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "clients").mkdir()
    os.mkfifo(tmp_path / "clients" / "producer-1.jsonl")
    with pytest.raises(UsageError, match="no regular file"):
        read_client_events(tmp_path)


def test_a_link_under_the_name_of_a_part_is_not_written_through(tmp_path: Path) -> None:
    mine, record = tmp_path / "mine", tmp_path / "run"
    mine.write_bytes(b"precious")
    record.mkdir()
    (record / "verdict.json.part").symlink_to(mine)
    (record / "verdict.json").symlink_to(mine)
    write_atomically(record / "verdict.json", b"new")
    assert mine.read_bytes() == b"precious"
    assert not (record / "verdict.json").is_symlink()
    assert (record / "verdict.json").read_bytes() == b"new"


def test_a_part_that_cannot_be_put_in_place_is_not_left_behind(tmp_path: Path) -> None:
    (tmp_path / "verdict.json" / "in-the-way").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        write_atomically(tmp_path / "verdict.json", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["verdict.json"]
