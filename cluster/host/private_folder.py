"""A folder of a run that holds what its record must not keep, such as the payloads of clients."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import msgspec

from cluster.host.volumes import identity_of
from ebbtide.folders import remove_folder


class PrivateFolder(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="folder"):
    """Ledger entry: the folder, which is removed with its content.

    Only the folder with this `identity` is removed: nobody can put another one in its place.
    """

    folder: str
    identity: str

    @classmethod
    def make(cls, folder: Path) -> Self:
        """Make the folder, still empty, and return its entry. Raises `OSError`."""
        folder.mkdir(parents=True, mode=0o700)
        return cls(folder=str(folder.resolve()), identity=identity_of(folder))

    def undo(self) -> bool:
        """Remove the folder; returns whether it was there."""
        return remove_folder(Path(self.folder), identity=self.identity)

    def describe(self) -> str:
        """Return how messages name the folder."""
        return f"folder {self.folder}"
