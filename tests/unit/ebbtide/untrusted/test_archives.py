"""Archives of somebody else: what is refused, and that a packed folder is the same afterwards."""

from __future__ import annotations

import gzip
import io
import os
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from ebbtide.errors import UsageError
from ebbtide.untrusted.archives import ArchiveBounds, pack, unpack

BOUNDS = ArchiveBounds(bytes_max=1 << 30, files_max=100, allowed="a record", next="pack it again")


def _member(name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE) -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.type, member.size = kind, len(content)
    member.linkname = "/etc/passwd" if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
    return member, content


def _tar(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for member, content in members:
            tar.addfile(member, io.BytesIO(content))
    return path


def _zip(path: Path, *members: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


def _zip_link() -> zipfile.ZipInfo:
    link = zipfile.ZipInfo("link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    return link


def _refused(archive: Path, into: Path) -> UsageError:
    into.mkdir()
    with pytest.raises(UsageError) as caught:
        unpack(archive, into, BOUNDS)
    assert (caught.value.where, caught.value.allowed, caught.value.next) == (str(archive), "a record", "pack it again")
    return caught.value


@pytest.mark.parametrize(
    ("members", "what"),
    [
        ([_member("/etc/x")], "leads out of it"),
        ([_member("a/../../x")], "leads out of it"),
        ([_member("/".join("a" * 20))], "too deep"),
        ([_member("a", kind=tarfile.SYMTYPE)], "a link or a device"),
        ([_member("a", kind=tarfile.LNKTYPE)], "a link or a device"),
        ([_member("a", kind=tarfile.CHRTYPE)], "a link or a device"),
        ([_member("a", kind=tarfile.FIFOTYPE)], "a link or a device"),
        ([_member("a"), _member("a")], "two files of one name"),
        ([_member("a"), _member("a/b")], "two files of one name"),
        ([_member("x" * 300)], "can name no file"),
        ([_member(str(number)) for number in range(101)], "too large"),
        ([_member("a", bytes(65 << 20))], "far more than its size"),
    ],
)
def test_a_tgz_that_may_do_harm_is_refused(
    members: list[tuple[tarfile.TarInfo, bytes]], what: str, tmp_path: Path
) -> None:
    assert what in _refused(_tar(tmp_path / "x.tgz", *members), tmp_path / "into").what


@pytest.mark.parametrize(
    ("members", "what"),
    [
        ([("/etc/x", b"")], "leads out of it"),
        ([("../x", b"")], "leads out of it"),
        ([(_zip_link(), b"/etc/passwd")], "a link or a device"),
        ([(str(number), b"") for number in range(101)], "too large"),
        ([("a", bytes(65 << 20))], "far more than its size"),
    ],
)
def test_a_zip_that_may_do_harm_is_refused(
    members: list[tuple[str | zipfile.ZipInfo, bytes]], what: str, tmp_path: Path
) -> None:
    assert what in _refused(_zip(tmp_path / "x.zip", *members), tmp_path / "into").what
    assert not any(path.is_symlink() for path in tmp_path.rglob("*"))


def test_sizes_that_only_a_header_claims_are_refused(tmp_path: Path) -> None:
    """No byte of them need be there, and nothing may be kept for them."""
    huge = tarfile.TarInfo("a")
    huge.size = 1 << 40
    (tmp_path / "file.tgz").write_bytes(gzip.compress(huge.tobuf()))
    assert "too large" in _refused(tmp_path / "file.tgz", tmp_path / "1").what
    header = tarfile.TarInfo("a")
    header.type, header.size = tarfile.XHDTYPE, 1 << 29
    (tmp_path / "header.tgz").write_bytes(gzip.compress(header.tobuf() + bytes(32 << 20)))
    assert "too large" in _refused(tmp_path / "header.tgz", tmp_path / "2").what


@pytest.mark.parametrize("name", ["x.tgz", "x.zip"])
def test_a_damaged_archive_is_one_error(name: str, tmp_path: Path) -> None:
    content = {"manifest.json": os.urandom(5_000)}
    if name.endswith("zip"):
        _zip(tmp_path / name, *content.items())
    else:
        _tar(tmp_path / name, *(_member(*one) for one in content.items()))
    whole = (tmp_path / name).read_bytes()
    for number, damaged in enumerate((b"", b"no archive", whole[:3_000], whole[:2_000] + bytes(50) + whole[2_050:])):
        (tmp_path / name).write_bytes(damaged)
        assert "damaged, or not whole" in _refused(tmp_path / name, tmp_path / str(number)).what


def test_headers_of_a_zip_that_say_nonsense_are_one_error(tmp_path: Path) -> None:
    whole = _zip(tmp_path / "x.zip", ("é", b"1"), ("b", b"2")).read_bytes()
    directory = whole.index(b"PK\1\2")
    no_name = whole.replace("é".encode(), b"\xff\xff")
    before = whole[: directory + 42] + b"\xff\xff\xff\xff" + whole[directory + 46 :]
    for number, damaged in enumerate((no_name, before)):
        (tmp_path / "x.zip").write_bytes(damaged)
        assert "damaged, or not whole" in _refused(tmp_path / "x.zip", tmp_path / str(number)).what


def test_an_encrypted_zip_is_refused(tmp_path: Path) -> None:
    _zip(tmp_path / "x.zip", ("a", b"secret"))
    content = bytearray((tmp_path / "x.zip").read_bytes())
    content[6] |= 1  # the flag in the file's header, and in the directory's
    content[content.index(b"PK\1\2") + 8] |= 1
    (tmp_path / "x.zip").write_bytes(content)
    assert "encrypted" in _refused(tmp_path / "x.zip", tmp_path / "into").what


def test_a_packed_folder_is_the_same_and_its_archive_depends_on_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    (folder / "sends").mkdir(parents=True)
    (folder / "manifest.json").write_text("{}")
    (folder / "sends" / "1.parquet").write_bytes(bytes(1_000))
    assert pack(folder, tmp_path / "a.tgz", BOUNDS) == 2
    os.utime(folder / "manifest.json", (1, 1))
    (folder / "manifest.json").chmod(0o600)
    pack(folder, tmp_path / "b.tgz", BOUNDS)
    assert (tmp_path / "a.tgz").read_bytes() == (tmp_path / "b.tgz").read_bytes()
    (tmp_path / "into").mkdir()
    unpack(tmp_path / "a.tgz", tmp_path / "into", BOUNDS)
    assert (tmp_path / "into" / "run" / "sends" / "1.parquet").read_bytes() == bytes(1_000)
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_what_was_packed_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "a").write_bytes(b"one")
    monkeypatch.setattr(tarfile.TarFile, "addfile", lambda tar, member, content: None)
    with pytest.raises(UsageError, match="does not hold what was packed"):
        pack(folder, tmp_path / "a.tgz", BOUNDS)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_packing_replaces_no_file_and_follows_no_link(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (tmp_path / "a.tgz").write_bytes(b"mine")
    with pytest.raises(UsageError, match="exists already"):
        pack(folder, tmp_path / "a.tgz", BOUNDS)
    assert (tmp_path / "a.tgz").read_bytes() == b"mine"
    (folder / "link").symlink_to("/etc/passwd")
    with pytest.raises(UsageError, match="a link cannot be packed"):
        pack(folder, tmp_path / "b.tgz", BOUNDS)
