"""Takes the jars out of a .tgz of Kafka, as `./gradlew releaseTarGz` makes it."""

from __future__ import annotations

import shutil
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from cluster.builds.contents import ALLOWED, NEXT
from ebbtide.errors import UsageError

_BYTES_MAX = 1 << 30
"""What an archive may unpack to. A distribution of Kafka has 0.2 GB."""
_MEMBERS_MAX = 20_000


def unpack_jars(archive: Path, into: Path) -> None:
    """Write the jars of an archive into a folder: those of its `libs/`, or else all.

    Raises `UsageError` for an archive that is damaged or too large, and for one with links, or with names that lead
    out of it.
    """
    try:
        with tarfile.open(archive, "r:gz") as tar:
            files = [one for one in _checked_members(tar, archive) if one.isfile() and one.name.endswith(".jar")]
            of_libs = [one for one in files if PurePosixPath(one.name).parent.name == "libs"]
            for member in of_libs or files:
                content = tar.extractfile(member)
                assert content is not None
                with content, (into / PurePosixPath(member.name).name).open("wb") as file:
                    shutil.copyfileobj(content, file)
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise _refused(archive, "the archive is damaged, or not whole", str(error)) from None


def _checked_members(tar: tarfile.TarFile, archive: Path) -> Iterator[tarfile.TarInfo]:
    size = 0
    for number, member in enumerate(tar, 1):
        path = PurePosixPath(member.name)
        size += member.size
        if size > _BYTES_MAX or number > _MEMBERS_MAX:
            got = f"more than {_BYTES_MAX >> 30} GiB, or {_MEMBERS_MAX:,} files"
            raise _refused(archive, "the archive is too large for Kafka", got)
        if path.is_absolute() or ".." in path.parts:
            raise _refused(archive, "a name in the archive leads out of it", member.name)
        if not (member.isfile() or member.isdir()):
            raise _refused(archive, "the archive has a link or a device", member.name)
        yield member


def _refused(archive: Path, what: str, got: str) -> UsageError:
    return UsageError(what, where=str(archive), got=got, allowed=ALLOWED, next=NEXT)
