"""An empty cache for builds whose jars no Java reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from own_builds import make_jar

from cluster.builds import naming

NEWEST = {
    "metadata.version": 34,
    "kraft.version": 1,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}
LEVELS = [f"{name} {7 if name == 'metadata.version' else 0} {level}" for name, level in NEWEST.items()]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and classes that say their feature levels."""
    monkeypatch.setenv("EBBTIDE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(naming, "add_log_binding", lambda jars: make_jar(jars / "slf4j-simple-1.7.36.jar", {"a": "b"}))
    monkeypatch.setattr(naming, "lines_of_program", lambda *_: LEVELS)
    return tmp_path / "cache"
