"""Files that the user names: written whole, written through, or refused."""

from __future__ import annotations

import os
import pty
import socket
import threading
from pathlib import Path

import pytest

from ebbtide.errors import UsageError
from ebbtide.named_files import check_named_file, write_named_file
from ebbtide.waiting import is_readable


def _write(path: Path, content: bytes = b"new") -> None:
    check_named_file(path, "page", "--html")
    write_named_file(path, content, "page")


def test_a_new_file_and_an_old_one_get_the_content(tmp_path: Path) -> None:
    for _ in range(2):
        _write(tmp_path / "page.html")
        assert (tmp_path / "page.html").read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [tmp_path / "page.html"]


def test_a_terminal_is_written_through_and_stays_a_terminal() -> None:
    ours, theirs = pty.openpty()
    try:
        device = Path(os.ttyname(theirs))
        _write(device)
        assert os.read(ours, 3) == b"new"
        assert device.is_char_device()
    finally:
        os.close(ours)
        os.close(theirs)


def test_the_null_device_stays_a_device() -> None:
    _write(Path("/dev/null"))
    assert Path("/dev/null").is_char_device()


def test_a_pipe_that_somebody_reads_gets_all_of_the_content(tmp_path: Path) -> None:
    pipe, much = tmp_path / "pipe", b"x" * 1_000_000  # more than a pipe holds
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    writer = threading.Thread(target=_write, args=(pipe, much))
    writer.start()
    read = bytearray()
    while len(read) < len(much):
        assert is_readable(reader, 10)
        read += os.read(reader, 1 << 16)
    writer.join(10)
    os.close(reader)
    assert read == much
    assert pipe.is_fifo()


def test_a_pipe_that_nobody_reads_is_refused_and_does_not_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="cannot be written there"):
        write_named_file(tmp_path / "pipe", b"new", "page")


@pytest.mark.parametrize("leads_to", ["victim", "nowhere", "/dev/null"])
def test_a_link_is_refused_and_what_it_leads_to_stays(tmp_path: Path, leads_to: str) -> None:
    victim, link = tmp_path / "victim", tmp_path / "link"
    victim.write_bytes(b"old")
    link.symlink_to(leads_to)
    with pytest.raises(UsageError, match="a link, which may lead anywhere"):
        check_named_file(link, "page", "--html")
    with pytest.raises(UsageError, match="a link, which may lead anywhere"):
        write_named_file(link, b"new", "page")
    assert victim.read_bytes() == b"old"
    assert link.is_symlink()
    assert not (tmp_path / "nowhere").exists()


def test_a_folder_and_a_socket_are_refused(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "socket"))
        for path in (tmp_path, tmp_path / "socket"):
            with pytest.raises(UsageError, match="cannot be written there"):
                check_named_file(path, "page", "--html")
            with pytest.raises(UsageError, match="cannot be written there"):
                write_named_file(path, b"new", "page")


@pytest.mark.parametrize("out", ["no/such/folder/x.toml", "/dev/null/x.toml", "/"])
def test_a_place_for_no_file_is_refused_before_the_work(out: str) -> None:
    with pytest.raises(UsageError, match="cannot be written there") as refused:
        check_named_file(Path(out), "scenario", "--out")
    assert refused.value.next == "name another file with --out"


@pytest.mark.parametrize("out", ["/dev/null/x.toml", "/", "/proc/x.toml"])
def test_a_file_that_cannot_be_written_is_a_usage_error(out: str) -> None:
    with pytest.raises(UsageError, match="the scenario cannot be written there"):
        write_named_file(Path(out), b"", "scenario")


def test_a_folder_that_may_not_be_written_to_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.toml"
    check_named_file(path, "scenario", "--out")
    monkeypatch.setattr(os, "access", lambda path, mode: not (path == tmp_path and mode & os.W_OK))
    with pytest.raises(UsageError, match="cannot be written there"):
        check_named_file(path, "scenario", "--out")
    path.touch()  # it would be replaced by a file that is written beside it
    with pytest.raises(UsageError, match="cannot be written there"):
        check_named_file(path, "scenario", "--out")
