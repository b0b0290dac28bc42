"""A build of one's own: 4.3.1 with a class changed runs, is named, and judged by rules that are said."""

from __future__ import annotations

import gzip
import os
import shutil
import zipfile
from pathlib import Path

import pytest
from live.commands import ebbtide, records_in
from own_builds import change_release, make_archive

from analysis.record.protocol import judged_by
from cluster.builds.naming import named_kafka
from cluster.jars.releases import ensure, jars_of
from ebbtide.errors import HarnessError
from ebbtide.places import cache_dir
from ebbtide.record.files import RecordFolder
from ebbtide.record.judged_by import JudgedBy
from ebbtide.record.manifest import read_manifest
from ebbtide.record.verdict import read_judgement
from ebbtide.releases.builds import is_build
from ebbtide.releases.feature_levels import levels_of

KAFKA = "4.3.1"
OWN = "4.5.0-SNAPSHOT"
SCENARIO = """
name = "own-build"
title = "One broker and a few records"
kafka = ["4.3.1"]

[cluster]
brokers = 1

[topics.t]
replication_factor = 1
min_isr = 1

[[producers]]
id = 1
topic = "t"
count = 100

[[steps]]
step = "wait"
trigger = { acked = 100 }

[[predictions]]
kafka = ">=3.3"
clause = "no fault: nothing is lost"
loss = { committed = "none", uncommitted = "none" }
"""


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


@pytest.mark.live
@pytest.mark.beside
def test_exactly_the_jars_of_a_release_are_judged_by_its_rules(jars: list[Path], tmp_path: Path) -> None:
    name = named(change_release(jars, tmp_path / "same", changed=False))
    assert is_build(name)
    assert judged_by(name) == JudgedBy(variant="elr-43", nearest=KAFKA, known=True)


@pytest.mark.live
def test_a_build_runs_and_says_by_which_rules_it_is_judged(cache: Path, jars: list[Path], tmp_path: Path) -> None:
    """A .tgz with a class changed and another version."""
    own = make_archive(tmp_path / "own.tgz", change_release(jars, tmp_path / "own", version=OWN))
    scenario = tmp_path / "own-build.toml"
    scenario.write_text(SCENARIO)
    words = ("run", scenario, "--kafka", own, "--runs", tmp_path / "runs")
    done = ebbtide(*words, env={"EBBTIDE_CACHE": str(cache)})
    assert done.returncode == 0, done.stderr
    (path,) = records_in(tmp_path / "runs")
    manifest, verdict = read_manifest(RecordFolder(path)), read_judgement(RecordFolder(path))
    assert manifest.kafka == "4.5.0"
    assert manifest.build is not None
    assert manifest.build.version == OWN
    with gzip.open(path / "logs" / "broker-1.log.gz", "rt") as log:
        assert f"Kafka version: {OWN}" in log.read()
    assert verdict.protocol == JudgedBy(variant="elr-43", nearest="4.4.0", known=False)
    said = f"judged by elr-43; {manifest.kafka_name} is newer than every release that Ebbtide knows"
    assert said in " ".join(done.stdout.split())
    assert manifest.kafka_name in (path / "report.html").read_text()
