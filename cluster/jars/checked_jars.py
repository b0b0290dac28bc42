"""A folder of fetched jars with the digest of each: renamed into place when whole, and compared at every use."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import msgspec

_LISTING = "jars.json"


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def keep_jars(jars: Path, folder: Path) -> list[Path]:
    """Note the digests of the jars in `jars`, and put it where `folder` is; returns the jars by name."""
    listing = {path.name: sha256_of(path) for path in sorted(jars.iterdir())}
    (jars / _LISTING).write_bytes(msgspec.json.format(msgspec.json.encode(listing)))
    shutil.rmtree(folder, ignore_errors=True)
    jars.rename(folder)
    return [folder / name for name in listing]


def intact_jars(folder: Path) -> list[Path] | None:
    """Return the jars if all are there and unchanged; None otherwise."""
    try:
        listing = msgspec.json.decode((folder / _LISTING).read_bytes(), type=dict[str, str])
        whole = all(sha256_of(folder / name) == digest for name, digest in listing.items())
    except (OSError, msgspec.MsgspecError):
        return None
    return [folder / name for name in listing] if whole else None
