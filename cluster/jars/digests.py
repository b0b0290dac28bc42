"""Compares jars with the digests that the project knows (`ebbtide.releases.known_jars`)."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ebbtide.errors import HarnessError
from ebbtide.places import check_own
from ebbtide.releases.known_jars import known_digests


def unlike_known(artifact: str, found: Mapping[str, str]) -> str | None:
    """Return the first difference between jars and those that the project knows; None also for an unknown artifact.

    `found` has the SHA-256 of each jar by its name.
    """
    known = known_digests().get(artifact)
    if known is None:
        return None
    for jar in sorted(known.keys() | found.keys()):
        if jar not in known:
            return f"{jar} does not belong to it"
        if jar not in found:
            return f"{jar} is missing"
        if found[jar] != known[jar]:
            return f"{jar} has the SHA-256 {found[jar]} instead of {known[jar]}"
    return None


def require_known(artifact: str, found: Mapping[str, str]) -> None:
    """Raise `HarnessError` where jars that were just fetched differ from those that the project knows."""
    difference = unlike_known(artifact, found)
    if difference is None:
        return
    jar = difference.partition(" ")[0]
    raise HarnessError(
        f"Maven returned another {artifact} than the one that Ebbtide knows; nothing was kept",
        where="the repository that Maven's settings name, or Maven's local repository",
        got=difference,
        next=f"find ~/.m2/repository -name {jar} -delete    (if Maven keeps its copies there; then try again)",
    )


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
