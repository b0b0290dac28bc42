"""Folders of any depth are walked and removed."""

from __future__ import annotations

from pathlib import Path

import pytest
from deep_folders import nest

from ebbtide.folders import remove_folder, walk

DEPTHS = [1, 1_200, 6_000]
"""The second is deeper than Python's recursion, and the third is longer than a path may be."""


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_deep_folder_is_removed_with_its_content(tmp_path: Path, depth: int) -> None:
    folder = nest(tmp_path / "folder", depth)
    (folder / "beside").touch()
    remove_folder(folder)
    assert not folder.exists()


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_deep_folder_is_walked_as_far_as_paths_go(tmp_path: Path, depth: int) -> None:
    found = {entry.name for entry in walk(nest(tmp_path / "folder", depth))}
    assert found == ({"d", "file"} if depth < 6_000 else {"d"})
    remove_folder(tmp_path / "folder")


def test_what_links_lead_to_stays(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "link").symlink_to(tmp_path / "other")
    assert [entry.name for entry in walk(tmp_path / "folder")] == ["link"]
    remove_folder(tmp_path / "folder")
    assert not (tmp_path / "folder").exists()
    (tmp_path / "link").symlink_to(tmp_path / "other")
    remove_folder(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "other" / "file").exists()


def test_a_missing_folder_and_a_file_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("missing", "file"):
        remove_folder(tmp_path / name)
    assert (tmp_path / "file").exists()
