"""Jars that say they are Kafka's, and what a committer makes of a release's: one class changed, another version."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

BROKER = "kafka/Kafka.class"
SAYS = "kafka/kafka-version.properties"
CHANGED = (b"Exiting Kafka due to fatal exception", b"Exiting MINE! due to fatal exception")
"""A text in the class kafka.Kafka$, and another one of its length."""


def said(version: str, commit: str = "77a89fcf8d7fa018") -> str:
    """What the properties of a jar say."""
    return f"commitId={commit}\nversion={version}\n"


def make_jar(path: Path, entries: Mapping[str, str]) -> Path:
    """Write a jar. Its entries have one time, so that the same entries are the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as jar:
        for name, content in entries.items():
            jar.writestr(zipfile.ZipInfo(name), content)
    return path


def make_build(folder: Path, version: str = "4.5.0-SNAPSHOT", *, broker: str = "class") -> Path:
    """Write a folder of jars, which no Java reads, and return it."""
    make_jar(folder / f"kafka_2.13-{version}.jar", {BROKER: broker, SAYS: said(version)})
    make_jar(folder / f"kafka-clients-{version}.jar", {"org/apache/Client.class": "c", SAYS: said(version)})
    make_jar(folder / f"kafka-raft-{version}.jar", {"org/apache/Raft.class": "r"})
    make_jar(folder / "slf4j-api-1.7.36.jar", {"org/slf4j/Logger.class": "l"})
    return folder


def make_archive(path: Path, folder: Path, name: str = "kafka_2.13-4.5.0-SNAPSHOT/libs") -> Path:
    """Pack a folder of jars as a distribution."""
    with tarfile.open(path, "w:gz", compresslevel=1) as tar:
        tar.add(folder, name)
    return path


def change_release(jars: Sequence[Path], into: Path, *, version: str | None = None, changed: bool = True) -> Path:
    """Copy a release's jars, without the log binding that Ebbtide adds; plant a change in a class, and a version."""
    into.mkdir(parents=True)
    for jar in jars:
        if jar.name.startswith("slf4j-simple"):
            continue
        with zipfile.ZipFile(jar) as content:
            before = [(entry, content.read(entry)) for entry in content.infolist()]
        after = [(entry, _planted(entry.filename, text, version, changed=changed)) for entry, text in before]
        if after == before:
            (into / jar.name).write_bytes(jar.read_bytes())
            continue
        with zipfile.ZipFile(into / jar.name, "w", zipfile.ZIP_DEFLATED) as content:
            for entry, text in after:
                content.writestr(entry, text)
    return into


def _planted(name: str, content: bytes, version: str | None, *, changed: bool) -> bytes:
    if changed and name == "kafka/Kafka$.class":
        assert CHANGED[0] in content
        return content.replace(*CHANGED)
    if version is not None and name == SAYS:
        lines = [line for line in content.splitlines() if not line.startswith(b"version=")]
        return b"\n".join([*lines, f"version={version}\n".encode()])
    return content
