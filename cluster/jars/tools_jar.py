"""The jar of Kafka's Verifiable tools: one jar beside the release's own, fetched with Maven and checked.

A broker does not need the jar `kafka-tools`, so a fetched release lacks it. Only the jar itself is fetched: what it
needs is in the release, except for Kafka Connect, which these tools do not use.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from cluster.jars.digests import intact_jars, keep_jars
from cluster.jars.maven import FETCH_TIMEOUT_S, Artifact, copy_runtime_jars
from ebbtide.locks import await_lock
from ebbtide.places import cache_dir

_ARTIFACT = "kafka-tools"


def tools_jar(kafka: str) -> Path:
    """Return the jar of a release; fetches it if it is missing or changed. Raises `HarnessError`."""
    folder = cache_dir() / _ARTIFACT / kafka
    folder.parent.mkdir(parents=True, exist_ok=True)
    with await_lock(folder.parent / ".lock", purpose="another fetch of the tools to end", timeout_s=FETCH_TIMEOUT_S):
        return (intact_jars(_name_of(kafka), folder) or _fetch(folder, kafka))[0]


def _name_of(kafka: str) -> str:
    return f"{_ARTIFACT}-{kafka}"


def _fetch(folder: Path, kafka: str) -> list[Path]:
    part = Path(tempfile.mkdtemp(prefix=".fetch-", dir=folder.parent))
    try:
        jars = part / "new"
        jars.mkdir()
        artifact = Artifact(group="org.apache.kafka", name=_ARTIFACT, version=kafka, is_alone=True)
        copy_runtime_jars([artifact], jars, folder.parent / f".maven-{kafka}.log")
        return keep_jars(_name_of(kafka), jars, folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
