"""A build of one's own: 4.3.1 with a class changed runs beside its jars, named, and judged by rules that are said."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import msgspec
import pytest
from live.commands import ebbtide, records_in
from own_builds import change_release, make_archive

from cluster.builds.naming import named_kafka
from cluster.jars.releases import ensure, jars_of
from ebbtide.errors import HarnessError
from ebbtide.places import cache_dir
from ebbtide.record.folder import RecordFolder
from ebbtide.record.judged_by import JudgedBy
from ebbtide.record.manifest import Manifest, read_manifest
from ebbtide.record.verdict import Verdict, read_verdict
from ebbtide.releases.feature_levels import levels_of

KAFKA = "4.3.1"
OWN = "4.5.0-SNAPSHOT"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that has 4.3.1 and the class archives of Spark, and goes with its builds."""
    ensure([KAFKA])
    cache = tmp_path_factory.mktemp("cache")
    for kept in (Path("kafka") / KAFKA, Path("spark")):
        shutil.copytree(cache_dir() / kept, cache / kept, copy_function=os.link)
    return cache


@pytest.fixture
def jars(cache: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The jars of 4.3.1 in that cache."""
    monkeypatch.setenv("EBBTIDE_CACHE", str(cache))
    return jars_of(KAFKA)


def named(folder: Path) -> str:
    return named_kafka(str(folder), lambda line: None)


@pytest.mark.live
@pytest.mark.beside
def test_the_classes_of_a_release_say_what_the_table_says(jars: list[Path], tmp_path: Path) -> None:
    assert levels_of(named(change_release(jars, tmp_path / "own", version=OWN))) == levels_of(KAFKA)


@pytest.mark.live
@pytest.mark.beside
def test_a_class_that_moved_is_named(jars: list[Path], tmp_path: Path) -> None:
    folder = change_release(jars, tmp_path / "own")
    jar = folder / f"kafka-server-common-{KAFKA}.jar"
    with zipfile.ZipFile(jar) as content:
        kept = [(one, content.read(one)) for one in content.infolist() if not one.filename.endswith("/Feature.class")]
    with zipfile.ZipFile(jar, "w") as content:
        for entry, text in kept:
            content.writestr(entry, text)
    with pytest.raises(HarnessError, match=r"ClassNotFoundException: org\.apache\.kafka\.server\.common\.Feature"):
        named(folder)


class Beside(msgspec.Struct, frozen=True):
    """What `ebbtide run --kafka OWN.tgz,SAME` left: by the version that it says, each record and its verdict."""

    done: subprocess.CompletedProcess[str]
    records: dict[str, tuple[Path, Manifest, Verdict]]


@pytest.fixture(scope="module")
def beside(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Beside:
    """A .tgz of 4.3.1 with a class changed and another version, beside exactly the jars of 4.3.1 in a folder."""
    folder = tmp_path_factory.mktemp("beside")
    released = sorted((cache / "kafka" / KAFKA / "jars").iterdir())
    own = make_archive(folder / "own.tgz", change_release(released, folder / "own", version=OWN))
    same = change_release(released, folder / "same", changed=False)
    done = ebbtide(
        *("run", "last-replica-standing", "--kafka", f"{own},{same}", "--runs", folder / "runs"),
        env={"EBBTIDE_CACHE": str(cache)},
        timeout_s=1200.0,
    )
    records = {}
    for path in records_in(folder / "runs"):
        manifest, verdict = read_manifest(RecordFolder(path)), read_verdict(RecordFolder(path))
        assert verdict is not None
        records[manifest.kafka_name.partition("@")[0]] = (path, manifest, verdict)
    return Beside(done, records)


@pytest.mark.live
def test_a_build_runs_beside_another_and_says_by_which_rules_it_is_judged(beside: Beside) -> None:
    assert beside.done.returncode == 0, beside.done.stderr
    path, manifest, verdict = beside.records[OWN]
    assert manifest.kafka == "4.5.0"
    assert manifest.build is not None
    assert manifest.build.version == OWN
    with gzip.open(path / "logs" / "broker-1.log.gz", "rt") as log:
        assert f"Kafka version: {OWN}" in log.read()
    assert verdict.protocol == JudgedBy(variant="elr-43", nearest="4.4.0", known=False)
    said = f"judged by elr-43; {manifest.kafka_name} is newer than every release that Ebbtide knows"
    assert said in " ".join(beside.done.stdout.split())
    assert manifest.kafka_name in (path / "report.html").read_text()


@pytest.mark.live
def test_exactly_the_jars_of_a_release_have_its_verdict(beside: Beside) -> None:
    """test_last_replica_standing.py has that of the release."""
    _, manifest, verdict = beside.records[KAFKA]
    assert manifest.kafka == KAFKA
    assert manifest.build is not None
    assert (verdict.outcome, verdict.losses, verdict.regressions) == ("as-predicted", [], [])
    assert verdict.protocol == JudgedBy(variant="elr-43", nearest=KAFKA, known=True)
    assert {one.status for one in verdict.properties} == {"holds", "not-exercised"}
