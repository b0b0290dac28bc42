"""The jars of Spark's Kafka connector: fetched with Maven, cached and checked."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path

import pyspark

from cluster.jars.digests import intact_jars, keep_jars
from cluster.jars.maven import FETCH_TIMEOUT_S, Artifact, copy_runtime_jars
from ebbtide.locks import await_lock
from ebbtide.places import cache_dir

VERSION = "4.0.0"
"""A connector of the installed Spark's line 4.0; its patch releases are interchangeable."""

ARTIFACT = f"spark-connector-{VERSION}"


def connector_jars() -> list[Path]:
    """Return the jars of the connector, without those that Spark has itself.

    Raises `HarnessError` when they cannot be fetched.
    """
    folder = cache_dir() / "spark-connector" / VERSION
    folder.parent.mkdir(parents=True, exist_ok=True)
    with await_lock(
        folder.parent / ".lock", purpose="another fetch of the connector to end", timeout_s=FETCH_TIMEOUT_S
    ):
        found = intact_jars(ARTIFACT, folder)
        return found if found is not None else _fetch(folder)


def _fetch(folder: Path) -> list[Path]:
    part = Path(tempfile.mkdtemp(prefix=".fetch-", dir=folder.parent))
    try:
        artifact = Artifact(group="org.apache.spark", name="spark-sql-kafka-0-10_2.13", version=VERSION)
        all_jars = part / "all"
        all_jars.mkdir()
        copy_runtime_jars([artifact], all_jars, folder.parent / ".maven.log")
        own = {_artifact(path) for path in (Path(pyspark.__file__).parent / "jars").glob("*.jar")}
        kept = part / "new"
        kept.mkdir()
        for path in all_jars.iterdir():
            if _artifact(path) not in own:
                path.rename(kept / path.name)
        return keep_jars(ARTIFACT, kept, folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _artifact(jar: Path) -> str:
    """Return the name of a jar without its version."""
    return re.sub(r"-\d[^_-]*$", "", jar.stem)
