"""Builds of Kafka that are not a published release: their names, and what each can do.

A build is named by its version and a digest of its jars, such as `4.5.0-SNAPSHOT@1f0c9a3b`. Everything that takes a
release takes such a name. Its jars are in the cache under that name, and beside them what its own classes say.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from typing import Annotated

import msgspec

from ebbtide.errors import HarnessError
from ebbtide.places import cache_dir

FACTS = "build.json"
"""The file of a cached build that has its `KafkaBuild`."""

ARCHIVES = (".tgz", ".tar.gz")
"""How the name of an archive of Kafka ends."""

JARS_MAX = 1_000
"""How many jars a build may have; a distribution has about a hundred."""

VERSION = re.compile(r"([0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9})(-[A-Za-z0-9][A-Za-z0-9.-]{0,40})?")
"""A version of Kafka: three numbers, and what the project adds to those of a build, such as `-SNAPSHOT`."""
_NAME = re.compile(rf"{VERSION.pattern}@[0-9a-f]{{8}}")


class KafkaBuild(msgspec.Struct, frozen=True, kw_only=True):
    """What a build says of itself: its version, its commit, and the oldest and newest level of each feature.

    `levels` is empty where its classes cannot say them. The levels of the known release then count.
    """

    version: str
    commit: str
    levels: dict[str, tuple[int, int]]


class RecordedBuild(msgspec.Struct, frozen=True, kw_only=True):
    """A build in a manifest: what it says of itself, and the SHA-256 of each of its jars by name."""

    version: Annotated[str, msgspec.Meta(pattern=rf"^{VERSION.pattern}\Z")]
    commit: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._-]{1,40}\Z")]
    digests: Annotated[dict[str, str], msgspec.Meta(max_length=JARS_MAX)]

    @property
    def name(self) -> str:
        """The build as `--kafka` takes it."""
        return name_of_build(self.version, self.digests)


def is_build(kafka: str) -> bool:
    """Whether the text names a build, and not a release."""
    return _NAME.fullmatch(kafka) is not None


def names_jars(word: str) -> bool:
    """Whether a word of --kafka says where jars are: a path, or a build in Maven's repositories."""
    if "/" in word or word.endswith(ARCHIVES):
        return True
    if version := VERSION.fullmatch(word):
        return version[2] is not None
    return not is_build(word) and not re.fullmatch(r"[0-9]+(\.[0-9]+)*", word) and os.path.exists(word)


def path_hint(word: str) -> str | None:
    """Return what to type for a file or folder that a word of --kafka may have meant; None if there is none."""
    if not os.path.exists(word):
        return None
    return f"--kafka ./{word}    (if you mean the {'folder' if os.path.isdir(word) else 'file'} of this name)"


def number_of(kafka: str) -> str:
    """Return the three numbers of a build; a text that names no build stays as it is."""
    named = _NAME.fullmatch(kafka)
    return kafka if named is None else named[1]


def name_of_build(version: str, digests: Mapping[str, str]) -> str:
    """Return the name of the build with these jars, whose SHA-256 are given by their names."""
    lines = "".join(f"{digest} {jar}\n" for jar, digest in sorted(digests.items()))
    return f"{version}@{hashlib.sha256(lines.encode()).hexdigest()[:8]}"


def build_of(name: str) -> KafkaBuild:
    """Return what a cached build says of itself. Raises `HarnessError` if it is not in the cache."""
    found = facts_of(name)
    if found is None:
        raise not_cached_error(name)
    return found


def facts_of(kafka: str) -> KafkaBuild | None:
    """Return what a cached build says of itself; None for a release, and for a build that is not in the cache."""
    if not is_build(kafka):
        return None
    try:
        return msgspec.json.decode((cache_dir() / "kafka" / kafka / FACTS).read_bytes(), type=KafkaBuild)
    except (OSError, msgspec.MsgspecError):
        return None


def not_cached_error(name: str) -> HarnessError:
    """Return the error for a build whose jars are not on this host any more, or never were."""
    return HarnessError(
        f"this host does not have the build {name}, or not all of it",
        where=str(cache_dir() / "kafka"),
        allowed="a build whose jars an earlier --kafka named",
        next="name its jars again: --kafka FOLDER, or --kafka FILE.tgz",
    )
