"""What another user of the host could have written is not believed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ebbtide.ownership import Untrusted, check_trusted, make_private_folder, read_private


def test_a_folder_that_only_this_user_writes_is_trusted(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir(0o755)
    check_trusted(tmp_path / "own")


@pytest.mark.parametrize("at", ["own", "own/below"])
def test_a_folder_below_one_that_others_write_is_refused(tmp_path: Path, at: str) -> None:
    (tmp_path / "own/below").mkdir(parents=True)
    (tmp_path / at).chmod(0o777)
    with pytest.raises(Untrusted, match="mode 0777") as caught:
        check_trusted(tmp_path / "own/below")
    assert str(tmp_path / at) in str(caught.value)
    assert "chmod go-w" in str(caught.value)


def test_a_folder_that_became_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "own").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Untrusted, match="symbolic link"):
        make_private_folder(tmp_path / "own")


def test_a_link_above_is_followed_where_its_target_is_trusted(tmp_path: Path) -> None:
    (tmp_path / "real/below").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    check_trusted(tmp_path / "link/below")
    (tmp_path / "real").chmod(0o777)
    with pytest.raises(Untrusted):
        check_trusted(tmp_path / "link/below")


def test_a_folder_of_an_earlier_release_is_closed_to_others(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own").chmod(0o755)
    make_private_folder(tmp_path / "own")
    assert (tmp_path / "own").stat().st_mode & 0o777 == 0o700


def test_a_file_that_others_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "file").chmod(0o600)
    assert read_private(tmp_path / "file") == b"x"
    (tmp_path / "file").chmod(0o622)
    with pytest.raises(Untrusted):
        read_private(tmp_path / "file")


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "file"
    if kind == "link":
        (tmp_path / "other").write_text("x")
        path.symlink_to(tmp_path / "other")
    else:
        os.mkfifo(path, 0o600)
    with pytest.raises((Untrusted, OSError)):
        read_private(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_what_belongs_to_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch(mode=0o600)
    os.chown(tmp_path / "file", 65534, 65534)
    with pytest.raises(Untrusted, match="owned by user 65534"):
        read_private(tmp_path / "file")
