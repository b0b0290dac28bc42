"""A run whose folder somebody renames, with a link in its place, changes nothing behind the link."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_state import HostState
from live.commands import WatchedCommand, records_in

from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import read_manifest

pytestmark = [pytest.mark.live, pytest.mark.slow]

SCENARIO = Path(__file__).with_name("disturbed.toml")
_FILES = ("manifest.json", "steps.jsonl", "SHA256SUMS", "journal/producer-1.journal", "raw/controller-101/x")


def _content(folder: Path) -> dict[str, str]:
    """Every file and folder below a folder."""
    return {str(one.relative_to(folder)): one.read_text() if one.is_file() else "" for one in folder.rglob("*")}


def test_nothing_is_written_or_deleted_behind_a_link_in_the_place_of_a_record(tmp_path: Path) -> None:
    other = tmp_path / "other"
    for name in _FILES:
        (other / name).parent.mkdir(parents=True, exist_ok=True)
        (other / name).write_text("theirs")
    content, before = _content(other), HostState.now()
    run = WatchedCommand(tmp_path / "out", "run", SCENARIO, "--kafka", "4.3.1", "--runs", tmp_path / "runs")

    def swap() -> None:
        (record,) = records_in(tmp_path / "runs")
        record.rename(tmp_path / "renamed")
        record.symlink_to(other)

    assert run.once_it_says("start clients:", swap) == 3, run.text()
    assert "somebody renamed or replaced the folder of this run" in run.text()
    assert f"the folder is now {tmp_path / 'renamed'}" in run.text()
    assert "Traceback" not in run.text()
    assert _content(other) == content
    manifest = read_manifest(RecordFolder(tmp_path / "renamed"))
    assert manifest.status == "failed"
    assert manifest.failure is not None
    assert "renamed or replaced" in manifest.failure
    assert HostState.now().left_since(before, manifest.run_id, str(tmp_path)) == []
