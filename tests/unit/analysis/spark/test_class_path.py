"""Spark's own jars make the class path, without its machine learning and without signatures."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pyspark
import pytest

from analysis.spark.class_path import class_path

SIGNED = {"META-INF/MANIFEST.MF": "", "META-INF/KEY.SF": "", "META-INF/KEY.RSA": "", "org/codehaus/A.class": "code"}


@pytest.fixture
def spark_home(tmp_path: Path) -> Path:
    """Two signed jars, one of Spark's machine learning, and another."""
    (tmp_path / "jars").mkdir()
    for name in ("janino-3.1.9.jar", "commons-compiler-3.1.9.jar", "spark-mllib_2.13-4.0.1.jar", "spark-sql.jar"):
        with zipfile.ZipFile(tmp_path / "jars" / name, "w") as jar:
            for entry, content in SIGNED.items():
                jar.writestr(entry, content)
    return tmp_path


def jars_of(path: str) -> list[Path]:
    """Return the jars of a class path."""
    return [Path(jar) for jar in path.split(os.pathsep)]


def test_jars_keep_their_classes_but_not_their_signatures(
    spark_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("EBBTIDE_CACHE", str(cache))
    sparks, compiler, janino = jars_of(class_path(spark_home))
    assert sparks == spark_home / "jars" / "spark-sql.jar"
    assert {compiler.parent, janino.parent} == {cache / "spark"}
    with zipfile.ZipFile(janino) as jar:
        assert jar.namelist() == ["META-INF/MANIFEST.MF", "org/codehaus/A.class"]
        assert jar.read("org/codehaus/A.class") == b"code"
    written_ns = janino.stat().st_mtime_ns
    class_path(spark_home)
    assert janino.stat().st_mtime_ns == written_ns  # a class archive fits no jar that was written again
    assert sorted(path.name for path in (cache / "spark").iterdir()) == [compiler.name, janino.name]


@pytest.mark.parametrize("cache", ["a:b", "file/in/the/way"])
def test_signed_jars_stay_where_there_can_be_no_copies(
    spark_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: str
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("EBBTIDE_CACHE", str(tmp_path / cache))
    assert {jar.parent for jar in jars_of(class_path(spark_home))} == {spark_home / "jars"}


def test_sparks_jars_have_the_names_that_are_looked_for() -> None:
    names = [jar.name for jar in (Path(pyspark.__file__).parent / "jars").glob("*.jar")]
    for prefix in ("spark-mllib_", "spark-sql_", "janino-", "commons-compiler-"):
        assert sum(name.startswith(prefix) for name in names) == 1
