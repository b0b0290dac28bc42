"""What the command refuses before it searches or starts anything."""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
import textwrap
from pathlib import Path

import pytest
from checkout import ROOT
from replay_records import LOST

from ebbtide.errors import ExitCode, HarnessError, UsageError
from ebbtide.record.files import RecordFolder
from ebbtide.scenario import catalogue
from harness.cli import nightly
from harness.cli.main import main
from harness.runner import launch
from harness.runner.host import make_record, require_folder


@pytest.mark.usefixtures("no_clusters")
@pytest.mark.parametrize(
    "words",
    [
        ["run", "healthy"],
        ["replay", str(LOST)],
        ["shrink", str(LOST)],
        ["random", "--run"],
        ["cluster", "up", "--foreground"],
    ],
    ids=lambda words: words[0],
)
def test_records_that_cannot_be_made_are_refused_before_anything_is_made(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(dir: Path) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(dir / "x"))

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    monkeypatch.setattr(launch, "prepare", lambda *_: pytest.fail("prepared before"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.chdir(tmp_path)
    assert main([*words, "--runs", str(tmp_path / "no" / "runs")]) == ExitCode.USAGE
    told = capsys.readouterr().err
    assert "records cannot be made in this folder" in told
    assert f"where:   {tmp_path / 'no' / 'runs'}\n" in told
    assert f"got:     {tmp_path}: {os.strerror(errno.EROFS)}" in told
    assert "next:    name another folder for records" in told


@pytest.mark.usefixtures("no_clusters")
@pytest.mark.parametrize("folder", ["{record}", "{record}/again", "{link}/again"], ids=["record", "inside", "link"])
@pytest.mark.parametrize(
    "words",
    [
        ["run", "healthy", "--runs"],
        ["replay", str(LOST), "--runs"],
        ["random", "--run", "--runs"],
        ["cluster", "up", "--foreground", "--runs"],
        ["nightly", "--store"],
    ],
    ids=lambda words: words[0],
)
def test_no_records_are_made_in_a_run_record(
    words: list[str],
    folder: str,
    record: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "link").symlink_to(record)
    before = sorted(path.name for path in record.iterdir())
    monkeypatch.setattr(launch, "prepare", lambda *_: pytest.fail("prepared before"))
    monkeypatch.setattr(nightly, "_run", lambda *_: pytest.fail("the night began"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.chdir(tmp_path)
    named = folder.format(record=record, link=tmp_path / "link")
    assert main([*words, named]) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert "a run record holds no other records" in said
    assert f"where:   {named}\n" in said
    assert f"got:     the run record {record}\n" in said
    assert "next:    name another folder" in said
    assert sorted(path.name for path in record.iterdir()) == before


@pytest.fixture
def record(tmp_path: Path) -> Path:
    return Path(shutil.copytree(LOST, tmp_path / "run"))


def test_the_default_folder_of_records_in_a_run_record_is_refused(
    record: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(record)
    with pytest.raises(UsageError, match="a run record holds no other records"):
        require_folder(Path("runs"))


def test_a_folder_that_is_not_in_a_record_takes_records(
    record: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Named from inside the record, and below the manifest.json of another tool."""
    monkeypatch.chdir(record)
    assert require_folder(Path("..", "runs")) == record / ".."
    for text in ('{"name": "an extension"}', "no JSON", "[]"):
        (tmp_path / "manifest.json").write_text(text)
        assert require_folder(tmp_path / "runs") == tmp_path


def test_a_file_is_no_folder_for_records(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="Not a directory") as refused:
        require_folder(tmp_path / "file" / "runs")
    assert refused.value.next is not None
    require_folder(tmp_path / "runs")
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("below", [".", "runs", "runs/deeper"])
def test_a_folder_that_another_user_could_replace_takes_no_records(tmp_path: Path, below: str) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    with pytest.raises(UsageError, match="another user of this host") as refused:
        require_folder(tmp_path / "shared" / below)
    assert "0777" in str(refused.value.got)
    (tmp_path / "shared").chmod(0o1777)  # where nobody can rename what is another's, as in /tmp
    require_folder(tmp_path / "shared" / below)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_root_makes_no_records_in_the_folder_of_a_user_except_of_the_one_who_called_sudo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SUDO_UID", raising=False)
    (tmp_path / "home" / "runs").mkdir(parents=True)
    os.chown(tmp_path / "home", 65534, 65534)
    with pytest.raises(UsageError, match="another user of this host"):
        require_folder(tmp_path / "home" / "runs")
    monkeypatch.setenv("SUDO_UID", "65534")
    require_folder(tmp_path / "home" / "runs")


def test_a_link_to_a_folder_of_records_is_followed_where_nobody_else_can_replace_either(tmp_path: Path) -> None:
    (tmp_path / "large").mkdir()
    (tmp_path / "runs").symlink_to(tmp_path / "large")
    require_folder(tmp_path / "runs")
    (tmp_path / "large").chmod(0o777)
    with pytest.raises(UsageError, match="another user of this host"):
        require_folder(tmp_path / "runs")


def test_an_error_that_shows_only_when_a_record_is_made_is_reported_in_the_same_way(tmp_path: Path) -> None:
    """A link that leads nowhere does not exist, and the folder that it lies in can be written to."""
    (tmp_path / "runs").symlink_to(tmp_path / "gone" / "runs")
    with pytest.raises(UsageError, match="records cannot be made in this folder") as refused:
        make_record(RecordFolder(tmp_path / "runs" / "one"))
    assert refused.value.where == str(tmp_path / "runs")


def test_a_full_disk_is_not_reported_as_a_wrong_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(dir: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(dir))

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    with pytest.raises(HarnessError, match="the disk is full"):
        make_record(RecordFolder(tmp_path / "one"))


def test_steps_that_need_volumes_are_refused_where_power_is_lost_by_truncate(monkeypatch: pytest.MonkeyPatch) -> None:
    from cluster import doctor
    from ebbtide.scenario import catalogue
    from harness.runner.launch import LaunchOptions, check

    monkeypatch.setattr(doctor, "require_host", lambda _steps: None)
    options = LaunchOptions(power_loss="truncate", runtime="local")
    check(options, catalogue.find("last-replica-standing"), ["4.3.1"])
    with pytest.raises(UsageError, match="fill-disk"):
        check(options, catalogue.find("disk-full"), ["4.3.1"])
    monkeypatch.setattr(doctor, "why_no_volumes", lambda: "loop mounts: none")
    monkeypatch.setattr(doctor, "require_host", lambda _steps: pytest.fail("asked before"))
    with pytest.raises(UsageError, match="fill-disk; loop mounts: none"):
        check(LaunchOptions(runtime="local"), catalogue.find("disk-full"), ["4.3.1"])


# `ebbtide scenarios check` takes what `ebbtide watch` takes, and says what the file is.


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    """The workload that the page on watches shows, in a file."""
    page = (ROOT / "docs" / "watch.md").read_text()
    begin = page.index("    [topics.orders]")
    text = page[begin : page.index("\n\nWith such a prediction", begin)]
    file = tmp_path / "orders.toml"
    file.write_text(textwrap.dedent(text))
    return file


def test_the_workload_that_the_page_shows_is_valid_and_is_called_one(
    workload: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["scenarios", "check", str(workload)]) == ExitCode.AS_PREDICTED
    printed = capsys.readouterr().out
    assert "ok, a workload of `ebbtide watch`: 1 topic, 1 producer, 1 consumer" in printed
    assert "`ebbtide run` also needs name, title, kafka" in printed
    assert main(["scenarios", "check", str(workload), "--json"]) == ExitCode.AS_PREDICTED
    found = json.loads(capsys.readouterr().out)
    assert (found["valid"], found["scenario"], found["run_needs"]) == (True, None, ["name", "title", "kafka"])


def test_what_a_watch_refuses_of_a_workload_is_a_problem_of_the_file(
    workload: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workload.write_text(workload.read_text().replace("rate_per_s = 100", "rate_per_s = 5000"))
    assert main(["scenarios", "check", str(workload)]) == ExitCode.USAGE
    error = capsys.readouterr().err
    assert "the producers of a watch are limited" in error
    assert "`ebbtide run` also needs name, title, kafka" in error


def test_a_file_with_steps_is_a_scenario_and_misses_its_keys(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cut.toml"
    lines = catalogue.text_of("last-replica-standing").splitlines()
    file.write_text("\n".join(line for line in lines if not line.startswith("kafka = [")))
    assert main(["scenarios", "check", str(file)]) == ExitCode.USAGE
    error = capsys.readouterr().err
    assert "missing key" in error
    assert "watch" not in error


def test_a_file_named_without_its_ending_gets_the_full_name_suggested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.toml").touch()
    (tmp_path / "my").mkdir()
    assert main(["run", "my"]) == ExitCode.USAGE
    told = capsys.readouterr().err
    assert "did you mean my.toml?" in told
    assert "acks-matrix-kill" not in told
    assert main(["run", "my.tom"]) == ExitCode.USAGE
    assert "did you mean my.toml?" in capsys.readouterr().err
    (tmp_path / "healthy.toml").touch()
    (tmp_path / "healthy").mkdir()
    assert catalogue.find("healthy").name == "healthy"
    (tmp_path / "my.toml").unlink()
    assert main(["run", "my"]) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert "this is a folder, not a scenario" in said
    assert "next:    ebbtide scenarios\n" in said
    (tmp_path / "my").rmdir()
    assert main(["run", "my"]) == ExitCode.USAGE
    assert "(lists all" in capsys.readouterr().err
