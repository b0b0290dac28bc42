"""A folder of jars is used only as it was fetched."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.jars.digests import intact_jars, keep_jars


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A kept folder of two jars, where an older one was."""
    (tmp_path / "new").mkdir()
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "old.jar").write_bytes(b"old")
    for name in ("b.jar", "a.jar"):
        (tmp_path / "new" / name).write_bytes(name.encode())
    assert keep_jars("tides-1", tmp_path / "new", tmp_path / "kept") == [
        tmp_path / "kept" / name for name in ("a.jar", "b.jar")
    ]
    return tmp_path / "kept"


def test_kept_jars_are_found_again_by_name_without_the_older_ones(folder: Path) -> None:
    assert intact_jars("tides-1", folder) == [folder / "a.jar", folder / "b.jar"]
    assert not (folder / "old.jar").exists()


def test_a_jar_that_changed_or_is_missing_makes_the_folder_unusable(folder: Path) -> None:
    (folder / "a.jar").write_bytes(b"b.jar")
    assert intact_jars("tides-1", folder) is None
    (folder / "a.jar").unlink()
    assert intact_jars("tides-1", folder) is None


@pytest.mark.parametrize("listing", ["", "{", '{"a.jar": 1}'])
def test_a_listing_that_cannot_be_read_makes_the_folder_unusable(folder: Path, listing: str) -> None:
    (folder / "jars.json").write_text(listing)
    assert intact_jars("tides-1", folder) is None
