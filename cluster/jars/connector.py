"""The jars of Spark's Kafka connector: fetched with Maven, cached and checked."""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
from pathlib import Path

import msgspec
import pyspark

from cluster.jars.maven import FETCH_TIMEOUT_S, Artifact, copy_runtime_jars
from ebbtide.locks import await_lock
from ebbtide.places import cache_dir

VERSION = "4.0.0"
"""A connector of the installed Spark's line 4.0; its patch releases are interchangeable."""

_LISTING = "jars.json"


def connector_jars() -> list[Path]:
    """Return the jars of the connector, without those that Spark has itself.

    Raises `HarnessError` when they cannot be fetched.
    """
    folder = cache_dir() / "spark-connector" / VERSION
    folder.parent.mkdir(parents=True, exist_ok=True)
    with await_lock(
        folder.parent / ".lock", purpose="another fetch of the connector to end", timeout_s=FETCH_TIMEOUT_S
    ):
        found = _load_intact(folder)
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
        listing = {path.name: _sha256(path) for path in sorted(kept.iterdir())}
        (kept / _LISTING).write_bytes(msgspec.json.format(msgspec.json.encode(listing)))
        shutil.rmtree(folder, ignore_errors=True)
        kept.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return [folder / name for name in listing]


def _load_intact(folder: Path) -> list[Path] | None:
    """Return the jars if all are there and unchanged; None otherwise."""
    try:
        listing = msgspec.json.decode((folder / _LISTING).read_bytes(), type=dict[str, str])
        whole = all(_sha256(folder / name) == digest for name, digest in listing.items())
    except (OSError, msgspec.MsgspecError):
        return None
    return [folder / name for name in listing] if whole else None


def _artifact(jar: Path) -> str:
    """Return the name of a jar without its version."""
    return re.sub(r"-\d[^_-]*$", "", jar.stem)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
