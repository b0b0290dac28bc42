"""Packed run records in the place of folders: every verb takes them, and leaves nothing behind."""

from __future__ import annotations

import shutil
import tarfile
import tempfile
import zipfile
from pathlib import Path

import msgspec
import pytest
from replay_records import LOST

from ebbtide.errors import ExitCode
from harness.cli import analyze
from harness.cli.archives import records_unpacked
from harness.cli.command import Args
from harness.cli.main import main


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with runs/a-run, run.tgz of it and store.tgz of runs; temporary folders are in scratch."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    shutil.copytree(LOST, tmp_path / "runs" / "a-run")
    assert main(["runs", "pack", "runs/a-run", "run.tgz"]) == main(["runs", "pack", "runs", "store.tgz"]) == 0
    return tmp_path


def _zip_without_folder(folder: Path) -> str:
    with zipfile.ZipFile("run.zip", "w") as archive:
        for path in (folder / "runs" / "a-run").rglob("*"):
            archive.write(path, path.relative_to(folder / "runs" / "a-run"))
        archive.writestr("__MACOSX/._manifest.json", "")
    return "run.zip"


def _out(capsys: pytest.CaptureFixture[str]) -> str:
    out = capsys.readouterr().out
    assert "scratch" not in out
    return out


def test_a_packed_record_says_what_its_folder_says(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["explain", "runs/a-run"]) == ExitCode.AS_PREDICTED
    whole = _out(capsys)
    for packed in ("run.tgz", "store.tgz/a-run", _zip_without_folder(folder)):
        assert main(["explain", packed]) == ExitCode.AS_PREDICTED
        assert _out(capsys) == whole
    assert not list((folder / "scratch").iterdir())


def test_a_packed_store_is_listed_by_its_name(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["runs", "--runs", "store.tgz", "--json"]) == ExitCode.AS_PREDICTED
    assert msgspec.json.decode(_out(capsys))["record"] == "store.tgz/a-run"


def test_every_record_of_a_packed_store_is_analyzed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[Path] = []
    monkeypatch.setattr(analyze, "judge_all", lambda records, **_: judged.extend(records) or ExitCode.AS_PREDICTED)
    assert main(["analyze", "store.tgz", "runs/a-run"]) == ExitCode.AS_PREDICTED
    assert [record.name for record in judged] == ["a-run", "a-run"]
    assert not judged[0].exists()


@pytest.mark.parametrize("verb", ["replay", "shrink"])
def test_an_error_names_the_archive_and_the_copy_is_gone(
    verb: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([verb, "store.tgz"]) == ExitCode.USAGE
    assert "a folder of records, and not a run record\n  where:   store.tgz\n" in capsys.readouterr().err
    assert not list((folder / "scratch").iterdir())


def test_a_packed_record_without_a_verdict_is_unpacked_to_be_judged(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """To analyze the archive would not help: nothing is kept of that."""
    (folder / "runs" / "a-run" / "verdict.json").unlink()
    main(["runs", "pack", "runs/a-run", "open.tgz"])
    assert main(["explain", "open.tgz"]) == ExitCode.USAGE
    assert "next:    unpack open.tgz, and ebbtide analyze its folder" in capsys.readouterr().err


def test_an_archive_of_something_else_is_one_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "notes.txt").write_text("no record")
    with tarfile.open("notes.tgz", "w:gz") as tar:
        tar.add("notes.txt")
    assert main(["explain", "notes.tgz"]) == ExitCode.USAGE
    assert "not a run record: manifest.json is missing\n  where:   notes.tgz\n" in capsys.readouterr().err


def test_the_page_of_packed_runs_lies_where_the_command_ran(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["runs", "compare", "runs/a-run", "run.tgz"]) == ExitCode.AS_PREDICTED
    page = _out(capsys).rpartition("comparison: ")[2].strip()
    assert "/" not in page
    assert (folder / page).is_file()


def test_the_copy_goes_also_when_the_command_fails(folder: Path) -> None:
    args = Args(run=Path("run.tgz"))

    def fail() -> None:
        with records_unpacked(args, ["run"]):
            assert (args.run / "manifest.json").is_file()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert args.run == Path("run.tgz")
    assert not list((folder / "scratch").iterdir())


def test_only_whole_records_are_packed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for record, archive, what in (
        ("runs/b-run", "b.tgz", "no such run record"),
        ("runs/a-run", "b.zip", "not the name of an archive"),
        ("runs", "runs/b.tgz", "the archive would be in the record"),
        ("runs/a-run", "nowhere/run.tgz", "the archive cannot be written there"),
        ("runs/a-run", "run.tgz", "the archive exists already"),
    ):
        assert main(["runs", "pack", record, archive]) == ExitCode.USAGE
        said = capsys.readouterr().err
        assert what in said
        if what.startswith(("not the name", "the archive would")):
            assert f"next:    ebbtide runs pack {record} run.tgz" in said
    assert "next:    rm run.tgz    (or name another archive)" in said


def test_what_a_killed_pack_left_is_gone_after_the_next_one(folder: Path) -> None:
    left = folder / ".again.tgz.part.tgz"
    left.write_bytes(b"half of an archive")
    assert main(["runs", "pack", "runs/a-run", "again.tgz"]) == ExitCode.AS_PREDICTED
    assert not left.exists()
    assert (folder / "again.tgz").read_bytes() == (folder / "run.tgz").read_bytes()
