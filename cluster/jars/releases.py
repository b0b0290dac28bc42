"""Kafka releases by version: fetched with Maven, cached and checked.

A release is a folder `<cache>/kafka/<version>/` with `jars/` and `release.json`. So is a build, by its name
(`cluster.builds` puts it there). The JSON lists each jar's size and
SHA-256 as fetched. By then Maven has checked the repository's checksums, and the jars of a known release have the
digests that the project has for them. The folder is made beside its final place and renamed, under one lock for the
whole cache, since Maven's local repository does not support two writers. Every use hashes the content, which takes
0.05 s; only lists compare names and sizes.
"""

from __future__ import annotations

import contextlib
import errno
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from cluster.jars.digests import require_known, sha256_of, unlike_known
from cluster.jars.maven import FETCH_TIMEOUT_S, Artifact, ArtifactMissing, copy_runtime_jars
from ebbtide.errors import HarnessError, UsageError
from ebbtide.locks import await_lock
from ebbtide.places import cache_dir, check_own
from ebbtide.releases.builds import is_build, not_cached_error, path_hint
from ebbtide.releases.known_jars import known_digests
from ebbtide.releases.known_releases import age_of, nearest_release, parse_version, published_releases

LOG_OPTIONS = (
    "-Dorg.slf4j.simpleLogger.logFile=System.out",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
)
"""JVM options with which each release logs to stdout as `2026-01-31T23:59:59.123Z [thread] LEVEL class - text`.

System properties, not a file: a configuration folder on the class path would rule out class data sharing.
"""

_KAFKA = "kafka_2.13"

# Every release so far is compiled against slf4j-api 1.7; a later release gets the binding of its own slf4j. The
# simple binding starts faster than log4j2, and gives the logs of all releases the same format.
_LOG_BINDING = Artifact(group="org.slf4j", name="slf4j-simple", version="1.7.36")

_LISTING = "release.json"
_LOCK = ".lock"
_PART = ".fetch-"


class CachedRelease(msgspec.Struct, frozen=True, kw_only=True):
    """A release in the cache.

    `problem` says why it cannot be used; None if it is as it was fetched. `dir` is the release's own folder. Data
    derived from the jars may be kept there, outside `jars/`; it is deleted when the release is fetched anew.
    `digests` has the SHA-256 of each jar by its name.
    """

    version: str
    dir: Path
    digests: Mapping[str, str]
    size_bytes: int
    problem: str | None = None

    @property
    def jars(self) -> tuple[str, ...]:
        """The names of the jars, always in the same order."""
        return tuple(self.digests)

    @property
    def jar_paths(self) -> list[Path]:
        """The class path, always in the same order."""
        return [self.dir / "jars" / name for name in self.jars]


class FetchEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of a fetch.

    `waiting` for another fetch, `fetching` (with the jars seen so far), `fetched`, or `cached`.
    """

    version: str
    phase: Literal["waiting", "fetching", "fetched", "cached"]
    jars: int = 0
    took_s: float = 0.0


Progress = Callable[[FetchEvent], None]


class _Jar(msgspec.Struct, frozen=True, kw_only=True):
    size: int
    sha256: str


class _JarListing(msgspec.Struct, frozen=True, kw_only=True):
    layout: Literal[1] = 1
    version: str
    jars: dict[str, _Jar]

    @property
    def digests(self) -> dict[str, str]:
        return {name: jar.sha256 for name, jar in self.jars.items()}


def _ignore_event(event: FetchEvent) -> None:
    pass


def jars_of(version: str) -> list[Path]:
    """Return the class path of a cached release, without network.

    Raises `HarnessError` if the release is missing or damaged.
    """
    return _usable(version).jar_paths


def digests_to_record(version: str) -> Mapping[str, str]:
    """Return the SHA-256 of each jar of a cached release or build that the project has no digests for; else nothing.

    Raises as `jars_of`.
    """
    return {} if _artifact(version) in known_digests() else _usable(version).digests


def _usable(version: str) -> CachedRelease:
    parse_version(version)
    release = _load(version, verify=True)
    if is_build(version) and (release is None or release.problem is not None):
        raise not_cached_error(version)
    if release is None:
        raise HarnessError(f"Kafka {version} has not been fetched", next=f"ebbtide kafka fetch {version}")
    if release.problem is not None:
        raise HarnessError(
            f"the cached Kafka {version} is damaged",
            where=str(release.dir),
            got=release.problem,
            next=f"ebbtide kafka fetch {version}    (fetches it anew)",
        )
    return release


def cached_releases() -> list[CachedRelease]:
    """Return the releases in the cache, oldest first; their jars are compared by name and size."""
    root = releases_dir()
    names = [path.name for path in root.iterdir() if not path.name.startswith(".")] if root.is_dir() else []
    releases = (name for name in names if is_build(name) or re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+", name))
    versions = sorted(releases, key=age_of)
    return [release for version in versions if (release := _load(version)) is not None]


def ensure(versions: Iterable[str], progress: Progress = _ignore_event) -> list[CachedRelease]:
    """Return the named releases; fetches those that are missing or damaged.

    All versions are checked before anything is fetched.
    """
    wanted = list(dict.fromkeys(versions))
    for version in wanted:
        parse_version(version)
    return [load_intact(version) or fetch(version, progress) for version in wanted]


def fetch(version: str, progress: Progress = _ignore_event) -> CachedRelease:
    """Return the release, its content hashed; downloads it if missing or damaged.

    Raises `UsageError` for an unknown release, `HarnessError` when Maven, the network or the disk fails.
    """
    parse_version(version)
    intact = load_intact(version)
    if intact is not None:
        progress(FetchEvent(version=version, phase="cached", jars=len(intact.jars)))
        return intact
    if is_build(version):
        raise not_cached_error(version)
    with locked_cache(version, progress):
        intact = load_intact(version)
        if intact is not None:
            progress(FetchEvent(version=version, phase="cached", jars=len(intact.jars)))
            return intact
        started = time.monotonic()
        progress(FetchEvent(version=version, phase="fetching"))
        release = _download(version, progress)
        took_s = time.monotonic() - started
        progress(FetchEvent(version=version, phase="fetched", jars=len(release.jars), took_s=took_s))
        return release


def _artifact(version: str) -> str:
    return f"kafka-{version}"


def releases_dir() -> Path:
    """Return the folder of the cache with a folder for each release and build."""
    return cache_dir() / "kafka"


def _load(version: str, verify: bool = False) -> CachedRelease | None:
    folder = releases_dir() / version
    if not folder.is_dir():
        return None
    for path in (folder, *folder.rglob("*")):
        check_own(path)
    try:
        listing = msgspec.json.decode((folder / _LISTING).read_bytes(), type=_JarListing)
    except (OSError, msgspec.MsgspecError) as error:
        return CachedRelease(version=version, dir=folder, digests={}, size_bytes=0, problem=f"{_LISTING}: {error}")
    return CachedRelease(
        version=version,
        dir=folder,
        digests=listing.digests,
        size_bytes=sum(jar.size for jar in listing.jars.values()),
        problem=_problem(folder / "jars", listing, verify),
    )


def load_intact(version: str) -> CachedRelease | None:
    """Return a release or build of the cache, its content hashed; None if it is missing or damaged."""
    release = _load(version, verify=True)
    return release if release is not None and release.problem is None else None


def _problem(folder: Path, listing: _JarListing, verify: bool) -> str | None:
    """Return the first difference between `folder`, `listing` and what the project knows; None without one."""
    present = {path.name: path for path in folder.iterdir()} if folder.is_dir() else {}
    for name in present.keys() - listing.jars.keys():
        return f"{name} was not there when the release was fetched"
    for name, jar in listing.jars.items():
        if name not in present:
            return f"{name} is missing"
        size = present[name].stat().st_size
        if size != jar.size:
            return f"{name} has {size} bytes instead of {jar.size}"
        if verify and sha256_of(present[name]) != jar.sha256:
            return f"{name} changed since it was fetched (its SHA-256 differs)"
    return unlike_known(_artifact(listing.version), listing.digests)


def _download(version: str, progress: Progress) -> CachedRelease:
    with new_folder() as new:
        try:
            copy_jars(version, new / "jars", progress)
        except ArtifactMissing as error:
            raise _missing_error(version, error) from None
        return keep(version, new)


@contextlib.contextmanager
def new_folder() -> Iterator[Path]:
    """Yield the path of a folder in the cache for jars, under the cache's lock; what `keep` does not take goes."""
    root = releases_dir()
    for left in root.glob(f"{_PART}*"):
        shutil.rmtree(left)
    part = Path(tempfile.mkdtemp(prefix=_PART, dir=root))
    try:
        yield part / "new"
    finally:
        shutil.rmtree(part, ignore_errors=True)


def keep(name: str, new: Path) -> CachedRelease:
    """Put a folder with `jars/` into the cache under a name, in place of what is there.

    Raises `HarnessError` if they are not the jars that the project knows as that release.
    """
    paths = sorted((new / "jars").iterdir())
    jars = {path.name: _Jar(size=path.stat().st_size, sha256=sha256_of(path)) for path in paths}
    listing = _JarListing(version=name, jars=jars)
    require_known(_artifact(name), listing.digests)
    (new / _LISTING).write_bytes(msgspec.json.format(msgspec.json.encode(listing)) + b"\n")
    kept = releases_dir() / name
    if kept.exists():
        kept.rename(new.parent / "replaced")
    new.rename(kept)
    release = _load(name)
    assert release is not None
    return release


def copy_jars(version: str, jars: Path, progress: Progress = _ignore_event, repository: str | None = None) -> None:
    """Fill `jars` with the release and the log binding that its slf4j-api accepts.

    slf4j silently ignores a binding of another version: the brokers would log nothing. Raises as `copy_runtime_jars`.
    """
    log = releases_dir() / f".maven-{version}.log"

    def copy(binding: Artifact) -> None:
        jars.mkdir(parents=True)
        copy_runtime_jars(
            [Artifact(group="org.apache.kafka", name=_KAFKA, version=version), binding],
            jars,
            log,
            lambda count: progress(FetchEvent(version=version, phase="fetching", jars=count)),
            repository,
        )

    copy(_LOG_BINDING)
    if (binding := _binding_for(jars)) != _LOG_BINDING:
        shutil.rmtree(jars)
        copy(binding)
    log.unlink()


def _binding_for(jars: Path) -> Artifact:
    found = next((path.stem.removeprefix("slf4j-api-") for path in jars.glob("slf4j-api-*.jar")), _LOG_BINDING.version)
    return msgspec.structs.replace(_LOG_BINDING, version=found)


def add_log_binding(jars: Path) -> None:
    """Put the log binding of their slf4j-api beside some jars: from another release of the cache, or by Maven."""
    binding = _binding_for(jars)
    name = f"{binding.name}-{binding.version}.jar"
    if (jars / name).exists():
        return
    for release in cached_releases():
        path = release.dir / "jars" / name
        if release.problem is None and name in release.digests and sha256_of(path) == release.digests[name]:
            shutil.copyfile(path, jars / name)
            return
    with tempfile.TemporaryDirectory(dir=jars.parent) as scratch:
        copy_runtime_jars([binding], Path(scratch), log := releases_dir() / ".maven-slf4j.log")
        log.unlink(missing_ok=True)
        shutil.copyfile(Path(scratch, name), jars / name)


def _missing_error(version: str, error: ArtifactMissing) -> HarnessError | UsageError:
    """Return the error for a release that does not exist or is only there in part."""
    if error.artifact != f"org.apache.kafka:{_KAFKA}:{version}":
        return HarnessError(
            f"Maven's repository has Kafka {version}, but not everything that it needs",
            where=error.where,
            got=f"{error.artifact} is missing",
            next=f"ebbtide kafka fetch {nearest_release(version)}    (the nearest known)",
        )
    return UsageError(
        "no such Kafka release in Maven's repository",
        where=error.where,
        got=version,
        allowed=published_releases(version),
        next=path_hint(version) or "ebbtide kafka list",
    )


@contextlib.contextmanager
def locked_cache(version: str, progress: Progress = _ignore_event) -> Iterator[None]:
    """Lock the cache for the block. An error of the disk is raised as `HarnessError`."""
    with _translate_disk_errors(releases_dir()):
        releases_dir().mkdir(parents=True, exist_ok=True)
        with await_lock(
            releases_dir() / _LOCK,
            purpose="another fetch to end",
            timeout_s=FETCH_TIMEOUT_S,
            note=lambda _: progress(FetchEvent(version=version, phase="waiting")),
        ):
            yield


@contextlib.contextmanager
def _translate_disk_errors(root: Path) -> Iterator[None]:
    """Turn an `OSError` of the disk into a `HarnessError`."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise HarnessError(
            "no space left on the disk while fetching" if full else "the cache cannot be written",
            where=str(error.filename or root),
            got=error.strerror or str(error),
            next="EBBTIDE_CACHE=/another/folder ebbtide kafka fetch ...",
        ) from None
