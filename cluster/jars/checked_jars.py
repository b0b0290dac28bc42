"""A folder of fetched jars with the digest of each: renamed into place when whole, and compared at every use."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import msgspec

from cluster.jars.digests import require_known, unlike_known
from ebbtide.places import check_own

_LISTING = "jars.json"


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def keep_jars(artifact: str, jars: Path, folder: Path) -> list[Path]:
    """Note the digests of the jars in `jars`, and put it where `folder` is; returns the jars by name.

    Raises `HarnessError` if they are not the jars that the project knows as this artifact.
    """
    listing = {path.name: sha256_of(path) for path in sorted(jars.iterdir())}
    require_known(artifact, listing)
    (jars / _LISTING).write_bytes(msgspec.json.format(msgspec.json.encode(listing)))
    shutil.rmtree(folder, ignore_errors=True)
    jars.rename(folder)
    return [folder / name for name in listing]


def intact_jars(artifact: str, folder: Path) -> list[Path] | None:
    """Return the jars if all are there, unchanged, and those that the project knows; None otherwise.

    Raises `HarnessError` if another user could have written one.
    """
    for path in (folder, *folder.glob("*")):
        check_own(path)
    try:
        listing = msgspec.json.decode((folder / _LISTING).read_bytes(), type=dict[str, str])
        whole = all(sha256_of(folder / name) == digest for name, digest in listing.items())
        whole = whole and unlike_known(artifact, listing) is None
    except (OSError, msgspec.MsgspecError):
        return None
    return [folder / name for name in listing] if whole else None
