"""Finds what the words of `--kafka` name, and puts the jars of a build into the cache under its name.

An archive is a .tgz of Kafka, as `./gradlew releaseTarGz` makes it.

Jars say which Kafka they are, without a start of Java.
"""

from __future__ import annotations

import os
import re
import shutil
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from cluster.jars.digests import sha256_of
from cluster.jars.maven import ArtifactMissing
from cluster.jars.releases import add_log_binding, copy_jars, keep, load_intact, locked_cache, new_folder
from cluster.runtime.java_programs import lines_of_program
from ebbtide.errors import UsageError
from ebbtide.properties_file import parse
from ebbtide.releases.builds import (
    ARCHIVES,
    FACTS,
    JARS_MAX,
    VERSION,
    KafkaBuild,
    facts_of,
    name_of_build,
    names_jars,
    path_hint,
)
from ebbtide.releases.known_jars import has_jars_of_release
from ebbtide.releases.known_releases import KRAFT_VERSION, parse_version
from ebbtide.shown_text import plural
from ebbtide.untrusted.archives import ArchiveBounds, members_of
from ebbtide.untrusted.files import path_from

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


_BOUNDS = ArchiveBounds(bytes_max=1 << 30, files_max=20_000, allowed=ALLOWED, next=NEXT)
"""A distribution of Kafka has 0.2 GB."""


def unpack_jars(archive: Path, into: Path) -> None:
    """Write the jars of an archive into a folder: those of its `libs/`, or else all.

    Raises `UsageError` as `members_of` does.
    """
    with members_of(archive, _BOUNDS) as members:
        jars = [one for one in members if one.path.name.endswith(".jar")]
        of_libs = [one for one in jars if one.path.parent.name == "libs"]
        for jar in of_libs or jars:
            with jar.open() as content, (into / jar.path.name).open("wb") as file:
                shutil.copyfileobj(content, file)


_PROGRAM = Path(__file__).with_name("KafkaFeatures.java")
_DISTRIBUTIONS = "core/build/distributions"
"""Where `./gradlew releaseTarGz` writes its archive in a checkout of Kafka."""
_FIRST_ASKED = 4
"""From this major release on, the classes say the feature levels. Before, those of the known releases count."""
_FROM_MAVEN = re.compile(rf"({VERSION.pattern})(?:@([a-z][a-z0-9+.-]*://.+))?")
_LEVELS = re.compile(r"(.*?)(:[a-z.]+=[0-9]+(?:\+[a-z.]+=[0-9]+)*)?", re.DOTALL)
_LEFT_OUT = re.compile(
    r"(?:log4j-slf4j2?-impl|slf4j-(?:reload4j|log4j12|jdk14|nop|simple)|logback-classic)-[0-9].*"
    r"|.*-(?:sources|javadoc|scaladoc|tests?|test-sources|test-fixtures)"
)
"""The jars, by their names, that no broker here needs: other log bindings, sources and tests."""


def named_kafka(text: str, note: Callable[[str], None]) -> str:
    """Return the value of --kafka with the name of a build for each word that names jars or a build in Maven.

    Other words stay as they are. `note` is called with a line for each build. Raises `UsageError` for jars that are
    not those of one Kafka, and `HarnessError` if Maven, Java or the disk fails.
    """
    return ",".join(_named(word, note) for word in text.split(","))


def _named(word: str, note: Callable[[str], None]) -> str:
    kafka, levels = _LEVELS.fullmatch(word.strip()).groups("")  # type: ignore[union-attr]
    if not names_jars(kafka):
        return word
    maven = _FROM_MAVEN.fullmatch(kafka)
    # No shell has replaced a ~ after a comma.
    path = path_from(os.path.expanduser(kafka))
    with locked_cache(kafka), new_folder() as new:
        jars = new / "jars"
        if maven is not None:
            _copy_from_maven(maven[1], maven[4], jars)
        else:
            jars.mkdir(parents=True)
            _copy_from_path(path, jars)
        said = what_jars_say(sorted(jars.iterdir()), kafka, _built_archive(path) or NEXT)
        parse_version(f"{said.version}@{'0' * 8}")
        add_log_binding(jars)
        name = name_of_build(said.version, {jar.name: sha256_of(jar) for jar in jars.iterdir()})
        kept = load_intact(name)
        if kept is None or facts_of(name) is None:
            (new / FACTS).write_bytes(msgspec.json.encode(_facts(said, jars)))
            kept = keep(name, new)
    same = ", those of the release" if has_jars_of_release(name) else ""
    note(f"{kafka} is Kafka {said}: {plural(len(kept.jars), 'jar')}{same}, called {name}")
    return name + levels


def _copy_from_maven(version: str, repository: str | None, jars: Path) -> None:
    try:
        copy_jars(version, jars, repository=repository)
    except ArtifactMissing as error:
        raise UsageError(
            "no such build of Kafka in Maven's repositories",
            where=error.where,
            got=error.artifact,
            allowed="a build in the local repository, or VERSION@URL with the URL of a repository",
            next=path_hint(version) or "./gradlew publishToMavenLocal    (in a checkout of Kafka)",
        ) from None


def _copy_from_path(path: Path, jars: Path) -> None:
    if path.is_dir():
        folder = path / "libs" if (path / "libs").is_dir() else path
        for jar in sorted(folder.glob("*.jar")):
            if not _LEFT_OUT.fullmatch(jar.stem):
                if not (jar.is_file() and os.access(jar, os.R_OK)):
                    raise UsageError("a jar cannot be read", where=str(jar), allowed="files that this user may read")
                shutil.copyfile(jar, jars / jar.name)
    elif path.is_file() and path.name.endswith(ARCHIVES):
        unpack_jars(path, jars)
        for jar in [*jars.iterdir()]:
            if _LEFT_OUT.fullmatch(jar.stem):
                jar.unlink()
    else:
        what = "Kafka's jars cannot be in such a file" if path.exists() else "no such Kafka"
        raise UsageError(what, where="--kafka", got=str(path), allowed=f"a release such as 4.3.1, {ALLOWED}")


def _built_archive(path: Path) -> str | None:
    """Return the option for the newest archive in a checkout of Kafka that has the folder; None if there is none."""
    folders = [path, *(one / _DISTRIBUTIONS for one in (path, *path.absolute().parents) if (one / "gradlew").is_file())]
    found = [one for folder in folders for one in folder.glob("kafka_*.tgz") if "-site-docs" not in one.name]
    return f"--kafka {max(found, key=os.path.getmtime)}" if found else None


def _facts(said: Said, jars: Path) -> KafkaBuild:
    levels: dict[str, tuple[int, int]] = {}
    if int(said.version.partition(".")[0]) >= _FIRST_ASKED:
        for line in lines_of_program(_PROGRAM, sorted(jars.iterdir()), "feature levels it has", str(said)):
            name, oldest, newest = line.split()
            # A static quorum is formatted with level 0, whatever else a build has.
            levels[name] = (0, 0) if name == KRAFT_VERSION else (int(oldest), int(newest))
    return KafkaBuild(version=said.version, commit=said.commit, levels=levels)
