"""Folders of any depth are walked and removed, and a held folder stays the same one."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from deep_folders import nest

from ebbtide.errors import HarnessError
from ebbtide.folders import HeldFolder, remove_folder, walk
from ebbtide.journal.convert import convert_journals
from ebbtide.record.files import RecordFolder, write_atomically

DEEP = 2_200
"""Deeper than Python's recursion, and longer than a path may be."""


@pytest.mark.parametrize("depth", [1, DEEP])
def test_a_deep_folder_is_walked_as_far_as_paths_go_and_removed_with_its_content(tmp_path: Path, depth: int) -> None:
    folder = nest(tmp_path / "folder", depth)
    (folder / "beside").touch()
    try:
        assert {entry.name for entry in walk(folder)} == {"d", "beside"} | ({"file"} if depth < DEEP else set())
        remove_folder(folder)
        assert not folder.exists()
    finally:
        # pytest could not remove it, and would fail at the end of later sessions.
        subprocess.run(["rm", "-rf", folder], check=True)


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


@pytest.fixture
def swapped(tmp_path: Path) -> Iterator[tuple[HeldFolder, Path, Path]]:
    """A held folder that was renamed, with a link to another folder in its place: the new name and the other folder."""
    (tmp_path / "record" / "journal").mkdir(parents=True)
    (tmp_path / "other" / "journal").mkdir(parents=True)
    (tmp_path / "other" / "journal" / "theirs").touch()
    held = HeldFolder(tmp_path / "record")
    (tmp_path / "record").rename(tmp_path / "renamed")
    (tmp_path / "record").symlink_to(tmp_path / "other")
    yield held, tmp_path / "renamed", tmp_path / "other"
    held.close()


def test_files_are_made_and_removed_in_the_held_folder_and_not_behind_a_link_in_its_place(
    swapped: tuple[HeldFolder, Path, Path],
) -> None:
    held, renamed, other = swapped
    write_atomically(held.path / "manifest.json", b"{}")
    convert_journals(RecordFolder(held.path))
    assert [path.name for path in renamed.iterdir()] == ["manifest.json"]
    assert [path.name for path in other.rglob("*")] == ["journal", "theirs"]


def test_a_renamed_folder_is_one_error_that_says_where_it_is(swapped: tuple[HeldFolder, Path, Path]) -> None:
    held, renamed, _ = swapped
    with pytest.raises(HarnessError, match="renamed or replaced") as failed:
        held.require_in_place()
    assert failed.value.got == f"the folder is now {renamed}"


def test_a_folder_in_its_place_is_no_error_and_a_link_is_not_held(tmp_path: Path) -> None:
    with contextlib.closing(HeldFolder(tmp_path)) as held:
        held.require_in_place()
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(OSError, match="Not a directory"):
        HeldFolder(tmp_path / "link")


def test_another_process_reaches_a_held_folder_by_its_path(swapped: tuple[HeldFolder, Path, Path]) -> None:
    held, renamed, _ = swapped
    subprocess.run(["touch", str(held.path / "by-a-client")], check=True)
    assert (renamed / "by-a-client").exists()
