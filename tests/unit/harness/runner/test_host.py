"""The folder of a record is the one that was made."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from ebbtide.errors import UsageError
from ebbtide.record.folder import RecordFolder
from harness.runner.host import make_record


def test_a_record_is_made_and_held_open(tmp_path: Path) -> None:
    with contextlib.closing(make_record(RecordFolder(tmp_path / "runs" / "one"))) as held:
        (held.path / "file").touch()
    assert (tmp_path / "runs" / "one" / "file").exists()


def test_a_link_that_takes_the_place_of_a_new_record_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.setattr(Path, "mkdir", lambda folder, **_: folder.symlink_to(tmp_path / "other"))
    with pytest.raises(UsageError, match="records cannot be made in this folder"):
        make_record(RecordFolder(tmp_path / "one"))
    assert list((tmp_path / "other").iterdir()) == []
