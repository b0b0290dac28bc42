"""A user may have no name and no home folder; what needs one says so in one error."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ebbtide.errors import ExitCode, HarnessError
from ebbtide.places import cache_dir, state_dir
from ebbtide.privileges import account_name, home_dir
from harness.cli.crash import write_crash_report
from harness.cli.main import main

UNNAMED = 3_999_999_999


@pytest.fixture
def unnamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process belongs to a user without an entry in /etc/passwd and without HOME."""
    for name in ("getuid", "geteuid"):
        monkeypatch.setattr(os, name, lambda: UNNAMED)
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "EBBTIDE_CACHE"):
        monkeypatch.delenv(name, raising=False)


def test_a_user_of_the_host_has_a_name_and_a_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert account_name()
    monkeypatch.delenv("HOME", raising=False)
    assert home_dir().is_absolute()
    monkeypatch.setenv("HOME", str(tmp_path))
    assert home_dir() == tmp_path


@pytest.mark.usefixtures("unnamed")
def test_a_user_without_an_entry_has_no_name_and_the_home_that_HOME_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert account_name() is None
    monkeypatch.setenv("HOME", str(tmp_path))
    assert [home_dir(), cache_dir(), state_dir()] == [
        tmp_path,
        tmp_path / ".cache" / "ebbtide",
        tmp_path / ".local" / "state" / "ebbtide",
    ]


@pytest.mark.usefixtures("unnamed")
@pytest.mark.parametrize("home", [None, "somewhere/below"])
@pytest.mark.parametrize("find", [home_dir, cache_dir, state_dir])
def test_without_a_home_the_error_says_what_to_set(
    find: object, home: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if home is not None:
        monkeypatch.setenv("HOME", home)
    with pytest.raises(HarnessError, match="this user has no home folder") as caught:
        find()  # type: ignore[operator]
    assert caught.value.where == f"user {UNNAMED}, who is not in /etc/passwd"
    assert caught.value.got == ("HOME is not set" if home is None else f"HOME={home}")
    assert str(caught.value.next).startswith("export HOME=/")


@pytest.mark.usefixtures("unnamed")
def test_named_folders_need_no_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EBBTIDE_CACHE", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert [cache_dir(), state_dir()] == [tmp_path, tmp_path / "ebbtide"]


@pytest.mark.usefixtures("unnamed")
def test_verbs_that_need_a_home_end_with_that_error(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["clean"], ["kafka", "list"], ["cluster", "status"]):
        assert main(arguments) == ExitCode.HARNESS_FAILED
        assert capsys.readouterr().err.startswith("error: this user has no home folder")


@pytest.mark.usefixtures("unnamed")
def test_the_report_of_a_bug_is_a_temporary_file_then(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    said = write_crash_report(KeyError("epoch"))
    (report,) = tmp_path.iterdir()
    assert str(report) in said
