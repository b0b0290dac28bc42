"""Jars of known artifacts are used only if the project knows their digests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from cluster.jars import connector, digests
from cluster.jars.digests import intact_jars, keep_jars, known_digests, require_known, unlike_known
from ebbtide.errors import HarnessError
from ebbtide.releases.known_releases import KNOWN
from tools.jar_digests import TABLE, lines_of

_WAVE = "a" * 64
_SHORE = "b" * 64


@pytest.fixture
def tides(monkeypatch: pytest.MonkeyPatch) -> None:
    """The project knows one artifact, of two jars."""
    known = {"tides-1": {"wave.jar": _WAVE, "shore.jar": _SHORE}}
    monkeypatch.setattr(digests, "known_digests", lambda: known)


def test_every_known_release_its_tools_and_the_connector_have_digests() -> None:
    """If this fails: `python -m tools.jar_digests`."""
    wanted = {f"kafka-{known.version}" for known in KNOWN}
    assert known_digests().keys() == wanted | {connector.ARTIFACT}
    for known in KNOWN:
        jars = known_digests()[f"kafka-{known.version}"]
        assert {f"kafka_2.13-{known.version}.jar", f"kafka-clients-{known.version}.jar"} <= jars.keys()


def test_the_table_is_as_its_program_writes_it() -> None:
    assert TABLE.read_text() == lines_of(known_digests())
    assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for jars in known_digests().values() for digest in jars.values())


@pytest.mark.parametrize(
    ("found", "difference"),
    [
        ({"wave.jar": _WAVE, "shore.jar": _SHORE}, None),
        ({"wave.jar": _SHORE, "shore.jar": _SHORE}, f"wave.jar has the SHA-256 {_SHORE} instead of {_WAVE}"),
        ({"wave.jar": _WAVE}, "shore.jar is missing"),
        ({"wave.jar": _WAVE, "shore.jar": _SHORE, "rock.jar": _WAVE}, "rock.jar does not belong to it"),
    ],
    ids=["the same", "another digest", "one less", "one more"],
)
@pytest.mark.usefixtures("tides")
def test_each_difference_of_a_known_artifact_is_named(found: Mapping[str, str], difference: str | None) -> None:
    assert unlike_known("tides-1", found) == difference
    assert unlike_known("tides-2", found) is None


@pytest.mark.usefixtures("tides")
def test_the_error_of_a_fetch_names_the_jar_and_what_to_type() -> None:
    with pytest.raises(HarnessError) as refused:
        require_known("tides-1", {"wave.jar": _SHORE, "shore.jar": _SHORE})
    assert refused.value.render().splitlines() == [
        "Maven returned another tides-1 than the one that Ebbtide knows; nothing was kept",
        "  where:   the repository that Maven's settings name, or Maven's local repository",
        f"  got:     wave.jar has the SHA-256 {_SHORE} instead of {_WAVE}",
        "  next:    find ~/.m2/repository -name wave.jar -delete    (if Maven keeps its copies there; then try again)",
    ]


@pytest.mark.usefixtures("tides")
def test_a_folder_of_other_jars_is_neither_kept_nor_used(tmp_path: Path) -> None:
    for name in ("wave.jar", "shore.jar"):
        (tmp_path / "new").mkdir(exist_ok=True)
        (tmp_path / "new" / name).touch()
    with pytest.raises(HarnessError, match="another tides-1"):
        keep_jars("tides-1", tmp_path / "new", tmp_path / "kept")
    assert not (tmp_path / "kept").exists()
    keep_jars("tides-2", tmp_path / "new", tmp_path / "kept")
    assert intact_jars("tides-2", tmp_path / "kept") is not None
    assert intact_jars("tides-1", tmp_path / "kept") is None


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A kept folder of two jars, where an older one was."""
    (tmp_path / "new").mkdir()
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "old.jar").write_bytes(b"old")
    for name in ("b.jar", "a.jar"):
        (tmp_path / "new" / name).write_bytes(name.encode())
    assert keep_jars("tides-1", tmp_path / "new", tmp_path / "kept") == [
        tmp_path / "kept" / name for name in ("a.jar", "b.jar")
    ]
    return tmp_path / "kept"


def test_kept_jars_are_found_again_by_name_without_the_older_ones(folder: Path) -> None:
    assert intact_jars("tides-1", folder) == [folder / "a.jar", folder / "b.jar"]
    assert not (folder / "old.jar").exists()


def test_a_jar_that_changed_or_is_missing_makes_the_folder_unusable(folder: Path) -> None:
    (folder / "a.jar").write_bytes(b"b.jar")
    assert intact_jars("tides-1", folder) is None
    (folder / "a.jar").unlink()
    assert intact_jars("tides-1", folder) is None


@pytest.mark.parametrize("listing", ["", "{", '{"a.jar": 1}'])
def test_a_listing_that_cannot_be_read_makes_the_folder_unusable(folder: Path, listing: str) -> None:
    (folder / "jars.json").write_text(listing)
    assert intact_jars("tides-1", folder) is None
