"""What another user could have put into the cache or the state folder is neither run nor believed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from analysis.spark.java_start import class_archive
from cluster.jars import digests
from cluster.jars.digests import sha256_of
from cluster.jars.releases import cached_releases, ensure, jars_of
from ebbtide.daemon.control import make_sockets_dir
from ebbtide.errors import ExitCode, HarnessError
from ebbtide.java import Java
from ebbtide.places import cache_dir, state_dir
from harness.cli.main import main

OTHER = 65534
UNKNOWN = "4.99.0"
"""A release whose jars the project has no digests of."""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with a cache and a state folder in it."""
    made = tmp_path / "home"
    for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "EBBTIDE_CACHE", "SUDO_UID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(made))
    for folder in (made / ".cache/ebbtide", made / ".local/state/ebbtide"):
        folder.mkdir(parents=True)
    return made


def give_away(path: Path) -> None:
    os.chown(path, OTHER, OTHER)


def open_to_all(path: Path) -> None:
    path.chmod(0o777)


WAYS = [pytest.param(give_away, marks=needs_root), open_to_all]


def make_release(version: str = UNKNOWN) -> Path:
    """Fill the cache with a release that is as it was fetched."""
    folder = cache_dir() / "kafka" / version
    (folder / "jars").mkdir(parents=True)
    jar = folder / "jars" / "kafka.jar"
    jar.write_bytes(b"PK")
    listing = {"layout": 1, "version": version, "jars": {jar.name: {"size": 2, "sha256": sha256_of(jar)}}}
    (folder / "release.json").write_bytes(msgspec.json.encode(listing))
    return folder


def test_folders_of_ones_own_are_used_whether_or_not_they_exist(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_dir() == home / ".cache/ebbtide"
    assert state_dir() == home / ".local/state/ebbtide"
    monkeypatch.setenv("EBBTIDE_CACHE", str(home / "not/yet"))
    assert cache_dir() == home / "not/yet"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("at", [".cache/ebbtide", ".cache", "."])
def test_a_cache_that_another_user_may_write_or_replace_is_refused_with_what_to_type(
    home: Path, way: Callable[[Path], None], at: str
) -> None:
    way(home / at)
    with pytest.raises(HarnessError, match="another user of this host could put something into the cache") as caught:
        cache_dir()
    assert caught.value.where == str((home / at).absolute())
    assert "export EBBTIDE_CACHE=" in str(caught.value)


@pytest.mark.parametrize("way", WAYS)
def test_a_state_folder_that_another_user_may_write_is_refused(home: Path, way: Callable[[Path], None]) -> None:
    way(home / ".local/state/ebbtide")
    for use in (state_dir, make_sockets_dir):
        with pytest.raises(HarnessError, match="into the state folder") as caught:
            use()
        assert "export XDG_STATE_HOME=" in str(caught.value)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "name", ["", "jars", "jars/kafka.jar", "release.json", "classes.jsa"], ids=lambda name: name or "its folder"
)
def test_a_release_of_which_another_user_could_write_a_file_is_refused(way: Callable[[Path], None], name: str) -> None:
    folder = make_release()
    (folder / "classes.jsa").write_bytes(b"x")
    assert jars_of(UNKNOWN) == [folder / "jars" / "kafka.jar"]
    way(folder / name)
    for use in (lambda: jars_of(UNKNOWN), lambda: ensure([UNKNOWN]), cached_releases):
        with pytest.raises(HarnessError, match="which Ebbtide would run or believe"):
            use()


@pytest.mark.parametrize("way", WAYS)
def test_other_fetched_jars_and_class_archives_are_checked_alike(tmp_path: Path, way: Callable[[Path], None]) -> None:
    fetched = tmp_path / "fetched"
    fetched.mkdir()
    (fetched / "tools.jar").write_bytes(b"PK")
    [jar] = digests.keep_jars("an artifact that nobody knows", fetched, cache_dir() / "kafka-tools")
    assert digests.intact_jars("an artifact that nobody knows", jar.parent) == [jar]
    way(jar)
    with pytest.raises(HarnessError, match="which Ebbtide would run or believe"):
        digests.intact_jars("an artifact that nobody knows", jar.parent)

    java = Java(executable=Path("/usr/bin/java"), version="17", major=17)
    archive = class_archive(java, "x.jar", tmp_path).archive
    assert archive is not None
    archive.write_bytes(b"x")
    assert str(archive) in class_archive(java, "x.jar", tmp_path).flags
    way(archive)
    assert class_archive(java, "x.jar", tmp_path).flags == ""


@needs_root
def test_by_sudo_root_does_not_use_the_folders_of_the_user_who_called_it(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (home, *home.rglob("*")):
        os.chown(path, OTHER, OTHER)
    monkeypatch.setenv("SUDO_UID", str(OTHER))
    for use in (cache_dir, state_dir):
        with pytest.raises(HarnessError, match="another user of this host") as caught:
            use()
        assert caught.value.next == "sudo -H ...    (uses root's own folders)"
    assert main(["kafka", "list"]) == ExitCode.HARNESS_FAILED
    said = capsys.readouterr().err
    assert said.count("error: ") == 1
    assert "Traceback" not in said
    assert {path.stat().st_uid for path in home.rglob("*")} == {OTHER}


@needs_root
def test_in_a_helper_container_root_acts_for_the_user_and_uses_these_folders(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (home, *home.rglob("*")):
        os.chown(path, OTHER, OTHER)
    monkeypatch.setenv("SUDO_UID", str(OTHER))
    monkeypatch.setenv("EBBTIDE_PRIVILEGES", "helper container")
    assert cache_dir() == home / ".cache/ebbtide"
    assert state_dir() == home / ".local/state/ebbtide"
