"""Unpacks the run records of a command line that are archives, for as long as the command runs."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from ebbtide.errors import EbbtideError
from ebbtide.scratch import UNPACKED, scratch_folder
from ebbtide.shown_text import shown_as
from ebbtide.untrusted.archives import ENDINGS, ArchiveBounds, is_archive, unpack
from harness.cli.command import Args

BOUNDS = ArchiveBounds(
    bytes_max=16 << 30,
    files_max=200_000,
    allowed="a .tgz or .zip of a run record, or of a folder of them, as `ebbtide runs pack` makes it",
)
_FOREIGN = "__MACOSX"
"""The folder that macOS adds to its archives."""


@contextlib.contextmanager
def records_unpacked(args: Args, names: Sequence[str]) -> Iterator[None]:
    """Have folders in the place of archives among the values of these names.

    A record of an archive of several is `ARCHIVE/RECORD`. Output names the archive. The folders are removed with the
    block, and what was written into them. Raises `UsageError` for an archive that is damaged or has links.
    """
    before = {name: value for name in names if (value := getattr(args, name, None)) is not None}
    shown: dict[Path, str] = {}
    with contextlib.ExitStack() as unpacked:
        for name, value in before.items():
            several = isinstance(value, tuple)
            found = [_unpacked(one, unpacked, shown) for one in (value if several else (value,))]
            vars(args)[name] = tuple(found) if several else found[0]
        try:
            yield
        except EbbtideError as error:  # it is printed after the block
            for folder, archive in shown.items():
                error.replace(str(folder), archive)
                # No judgement is kept in an archive.
                error.replace(f"ebbtide analyze {archive}", f"unpack {archive}, and ebbtide analyze its folder")
            raise
        finally:
            vars(args).update(before)


def _unpacked(value: Path | str, until: contextlib.ExitStack, shown: dict[Path, str]) -> Path | str:
    path = Path(value)
    archive = next((one for one in (path, *path.parents) if is_archive(one)), None)
    if archive is None:
        return value
    stem = next(archive.name[: -len(one)] for one in ENDINGS if archive.name.lower().endswith(one))
    folder = until.enter_context(scratch_folder(UNPACKED)) / (stem.strip(".") or "record")
    folder.mkdir()
    unpack(archive, folder, BOUNDS)
    found = [one for one in folder.iterdir() if one.name != _FOREIGN]
    # `tar czf RUN.tgz RUN` and `cd RUN && tar czf ../RUN.tgz .` are both common.
    inner = found[0] if len(found) == 1 and found[0].is_dir() else folder
    if not any(mark in (name := shlex.quote(str(archive))) for mark in '"\\'):
        until.enter_context(shown_as(inner, name))
        shown[inner] = name
    return type(value)(inner / path.relative_to(archive))
