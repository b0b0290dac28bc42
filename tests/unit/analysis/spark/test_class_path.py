"""Spark's own jars make the class path, without its machine learning."""

from __future__ import annotations

import os
from pathlib import Path

import pyspark

from analysis.spark.java_start import class_path


def test_sparks_own_jars_come_first_and_its_machine_learning_is_left_out(tmp_path: Path) -> None:
    jars = tmp_path / "jars"
    jars.mkdir()
    for name in ("janino-3.1.9.jar", "spark-mllib_2.13-4.0.1.jar", "spark-sql.jar"):
        (jars / name).touch()
    assert class_path(tmp_path).split(os.pathsep) == [str(jars / "spark-sql.jar"), str(jars / "janino-3.1.9.jar")]


def test_sparks_jars_have_the_names_that_are_looked_for() -> None:
    names = [jar.name for jar in (Path(pyspark.__file__).parent / "jars").glob("*.jar")]
    for prefix in ("spark-mllib_", "spark-sql_"):
        assert sum(name.startswith(prefix) for name in names) == 1
