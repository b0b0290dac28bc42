"""`ebbtide --version` says the commit: a wheel has it inside, a checkout asks git."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from ebbtide import __version__
from ebbtide.version import commit_of, version_text
from harness.cli.main import main
from hatch_build import BAKED, CommitHook


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with one commit, and a folder `ebbtide` in it."""
    (tmp_path / "ebbtide").mkdir()
    (tmp_path / "ebbtide" / "file").write_text("before")
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for words in (("init", "--quiet"), ("add", "."), (*identity, "commit", "--quiet", "--message=first")):
        subprocess.run(["git", "-C", tmp_path, *words], check=True)
    return tmp_path


def head(checkout: Path) -> str:
    done = subprocess.run(["git", "-C", checkout, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    return done.stdout[:12]


def test_a_checkout_says_its_commit_and_whether_files_were_changed(checkout: Path) -> None:
    assert commit_of(checkout / "ebbtide") == head(checkout)
    (checkout / "ebbtide" / "file").write_text("after")
    assert version_text(checkout / "ebbtide") == f"{__version__} ({head(checkout)}-dirty)"


def test_a_repository_around_the_environment_is_not_ebbtides(checkout: Path) -> None:
    package = checkout / "site-packages" / "ebbtide"
    package.mkdir(parents=True)
    assert version_text(package) == __version__


def test_without_git_the_version_stands_alone(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert version_text(checkout / "ebbtide") == __version__


@pytest.mark.parametrize("kind", ["standard", "editable"])
def test_a_build_bakes_the_commit_unless_it_is_editable(checkout: Path, kind: str) -> None:
    hook = CommitHook(str(checkout), {}, None, None, "", "wheel")  # type: ignore[arg-type]
    build_data: dict[str, Any] = {"force_include": {}}
    hook.initialize(kind, build_data)
    if kind == "editable":
        assert build_data["force_include"] == {}
        return
    [(written, place)] = build_data["force_include"].items()
    assert place == BAKED
    package = checkout / "installed" / "ebbtide"
    package.mkdir(parents=True)
    (package / "_commit.txt").write_text(Path(written).read_text())
    assert commit_of(package) == head(checkout)
    hook.finalize(kind, build_data, "")
    assert not Path(written).exists()


def test_the_command_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"ebbtide {version_text()}\n"
