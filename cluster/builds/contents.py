"""Reads from jars which Kafka they are, without starting Java."""

from __future__ import annotations

import re
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from ebbtide.errors import UsageError
from ebbtide.properties_file import parse
from ebbtide.releases.builds import JARS_MAX, VERSION
from ebbtide.shown_text import plural

_SAYS = "kafka/kafka-version.properties"
"""Several of Kafka's jars have it. The class that reads it is not the same in all releases."""
_BROKER = "kafka/Kafka.class"
_OF_KAFKA = re.compile(r"kafka(?:_2\.1[0-9])?(?:-[a-z]+)*-([0-9]+\.[0-9]+\.[0-9]+.*)\.jar")
_VERSIONED = re.compile(r"(.+?)-([0-9]+(?:\.[0-9]+)*)")
_PROPERTIES_MAX = 10_000
ALLOWED = "a folder of Kafka's jars, an unpacked distribution with libs/, or a .tgz of one"
NEXT = "./gradlew releaseTarGz    (in a checkout of Kafka; then name core/build/distributions/kafka_2.13-VERSION.tgz)"


class Said(NamedTuple):
    """The version and the commit that a jar says it was built from."""

    version: str
    commit: str

    def __str__(self) -> str:
        return f"{self.version}, commit {self.commit}"


Fact = TypeVar("Fact", str, Said)


def what_jars_say(jars: Sequence[Path], where: str, next: str = NEXT) -> Said:
    """Return of which Kafka the jars are.

    `where` names them in an error, and `next` says what to type. Raises `UsageError` if they are no broker's jars, or
    not all of one Kafka.
    """
    if len(jars) > JARS_MAX:
        raise UsageError(
            "too many jars for one Kafka", where=where, got=f"{len(jars):,}", allowed=f"up to {JARS_MAX:,}"
        )
    names = {jar: _names_in(jar, where) for jar in jars}
    if jars and not any(name.endswith(".class") for each in names.values() for name in each):
        raise UsageError(
            "these jars have no Java class", where=where, got=plural(len(jars), "jar"), allowed=ALLOWED, next=next
        )
    if not any(_BROKER in each for each in names.values()):
        got = f"{plural(len(jars), 'jar')}, none with the class kafka.Kafka" if jars else "no jar"
        raise UsageError("no jars of a Kafka broker", where=where, got=got, allowed=ALLOWED, next=next)
    said = {jar.name: _said_by(jar, where) for jar, each in names.items() if _SAYS in each}
    if not said:
        raise UsageError(
            "Kafka's jars do not say which version they are", where=where, got=f"no {_SAYS} in them", next=next
        )
    found = _common(said, where)
    _common({jar.name: named[1] for jar in jars if (named := _OF_KAFKA.fullmatch(jar.name)) is not None}, where)
    _refuse_two_versions(names, where)
    return found


def _common(facts: Mapping[str, Fact], where: str) -> Fact:
    """Return what most jars say. Raises `UsageError` if another jar says something else."""
    (most, count), *others = Counter(facts.values()).most_common()
    if others:
        other = next(jar for jar, fact in sorted(facts.items()) if fact != most)
        raise UsageError(
            "a jar of another Kafka is among them",
            where=where,
            got=f"{other}: {facts[other]}; {plural(count, 'other jar')}: {most}",
            allowed="the jars of one build",
            next="remove it, or build all jars again",
        )
    return most


def _refuse_two_versions(names: Mapping[Path, frozenset[str]], where: str) -> None:
    """Raise `UsageError` for two versions of a jar: Java would take the classes of the one that comes first.

    Jars of different projects may have the same name, so only jars with a class in common count.
    """
    seen: dict[str, tuple[Path, str]] = {}
    for jar, content in sorted(names.items()):
        parts = _VERSIONED.match(jar.name)
        if parts is None:
            continue
        other, version = seen.setdefault(parts[1], (jar, parts[2]))
        common = names[other] & content if version != parts[2] else ()
        if any(name.endswith(".class") and not name.endswith("module-info.class") for name in common):
            raise UsageError(
                "two versions of a jar",
                where=where,
                got=f"{other.name} and {jar.name}",
                allowed="the jars of one build",
                next="unpack the archive into an empty folder, or remove the older jar",
            )


def _names_in(jar: Path, where: str) -> frozenset[str]:
    try:
        with zipfile.ZipFile(jar) as content:
            return frozenset(content.namelist())
    except (zipfile.BadZipFile, OSError, EOFError) as error:
        raise _damaged_error(jar, where, error) from None


def _said_by(jar: Path, where: str) -> Said:
    try:
        with zipfile.ZipFile(jar) as content, content.open(_SAYS) as file:
            found = parse(file.read(_PROPERTIES_MAX).decode())
    except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise _damaged_error(jar, where, error) from None
    version = found.get("version", "")
    if not VERSION.fullmatch(version):
        allowed = "such as 4.5.0-SNAPSHOT"
        raise UsageError("not a version of Kafka", where=f"{where}, {jar.name}: {_SAYS}", got=version, allowed=allowed)
    return Said(version, re.sub(r"[^A-Za-z0-9._-]", "", found.get("commitId", ""))[:40] or "unknown")


def _damaged_error(jar: Path, where: str, error: Exception) -> UsageError:
    got = f"{jar.name}: {error}"
    return UsageError("a jar is damaged", where=where, got=got, allowed="whole jars", next="build or copy it again")
