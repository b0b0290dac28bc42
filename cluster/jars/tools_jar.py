"""The jar of Kafka's Verifiable tools: one jar beside the release's own, fetched with Maven and checked.

A broker does not need the jar `kafka-tools`, so a fetched release lacks it. Only the jar itself is fetched: what it
needs is in the release, except for Kafka Connect, which these tools do not use.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path

import msgspec

from cluster.jars.maven import FETCH_TIMEOUT_S, Artifact, copy_runtime_jars
from ebbtide.locks import await_lock
from ebbtide.places import cache_dir

_ARTIFACT = "kafka-tools"
_LISTING = "jars.json"


def tools_jar(kafka: str) -> Path:
    """Return the jar of a release; fetches it if it is missing or changed. Raises `HarnessError`."""
    folder = cache_dir() / _ARTIFACT / kafka
    folder.parent.mkdir(parents=True, exist_ok=True)
    with await_lock(folder.parent / ".lock", purpose="another fetch of the tools to end", timeout_s=FETCH_TIMEOUT_S):
        return _load_intact(folder) or _fetch(folder, kafka)


def _fetch(folder: Path, kafka: str) -> Path:
    part = Path(tempfile.mkdtemp(prefix=".fetch-", dir=folder.parent))
    try:
        jars = part / "new"
        jars.mkdir()
        artifact = Artifact(group="org.apache.kafka", name=_ARTIFACT, version=kafka, is_alone=True)
        copy_runtime_jars([artifact], jars, folder.parent / f".maven-{kafka}.log")
        [jar] = jars.iterdir()
        (jars / _LISTING).write_bytes(msgspec.json.encode({jar.name: _sha256(jar)}))
        shutil.rmtree(folder, ignore_errors=True)
        jars.rename(folder)
        return folder / jar.name
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _load_intact(folder: Path) -> Path | None:
    """Return the jar if it is there and unchanged; None otherwise."""
    try:
        [(name, digest)] = msgspec.json.decode((folder / _LISTING).read_bytes(), type=dict[str, str]).items()
        return folder / name if _sha256(folder / name) == digest else None
    except (OSError, msgspec.MsgspecError, ValueError):
        return None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
