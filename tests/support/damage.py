"""Damages a copy of a run record in one place, and checks its verdict.

The record must still allow the verdict. A record has one damage at a time, or two (`both`): a file that is missing, an
entry that is missing in the manifest, or a file that was cut off, has flipped bits or a stretch of zeros.
"""

from __future__ import annotations

import contextlib
import json
import random
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from analysis.judging.many_records import Bug
from ebbtide.errors import EbbtideError
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import MANIFEST
from ebbtide.record.sums import SUMS, write_sums
from ebbtide.record.verdict import Verdict

Kind = Literal["removed", "cut", "flipped", "zeroed"]

_JUDGED_ANEW = {"verdict.json", "report.html", "anomalies"}
_ZEROS_MAX = 512
_AGAINST = re.compile(
    r" is violated: | against the protocol: |^predicted .*, seen (?!.*did not show)| had read are gone$"
)


class Damage(NamedTuple):
    """One damage; `apply` makes it in a copy of the record.

    Most damages are to one `file`.
    """

    name: str
    apply: Callable[[Path], None]
    file: str = ""


def removals(record: Path) -> Iterator[Damage]:
    """Return the removal of each file, each folder of raw/ and each manifest entry."""
    for name in _files(record):
        yield Damage(f"{name} removed", lambda copy, name=name: (copy / name).unlink())  # type: ignore[misc]
    for folder in sorted(path.name for path in (record / "raw").glob("*")):
        yield Damage(f"raw/{folder} removed", lambda copy, folder=folder: shutil.rmtree(copy / "raw" / folder))  # type: ignore[misc]
    for path in _entries(json.loads((record / MANIFEST).read_text())):
        yield Damage(f"{MANIFEST}: {'/'.join(path)} removed", lambda copy, path=path: _remove_key(copy, path))  # type: ignore[misc]


def damages(record: Path, seed: int, count: int) -> Iterator[Damage]:
    """Return `count` cuts, flipped bits and stretches of zeros each.

    Each is at a random place of a random file.
    """
    rolled = random.Random(f"{record.name} {seed}")
    files = [name for name in _files(record) if (record / name).stat().st_size]
    kinds: tuple[Kind, ...] = ("cut", "flipped", "zeroed")
    for kind in kinds:
        for _ in range(count):
            name = rolled.choice(files)
            at, bit = rolled.randrange((record / name).stat().st_size), rolled.randrange(8)
            zeros = rolled.randint(1, _ZEROS_MAX)
            yield Damage(
                f"{name} {kind} at byte {at}",
                lambda copy, name=name, kind=kind, at=at, bit=bit, zeros=zeros: _spoil(  # type: ignore[misc]
                    copy / name, kind, at, bit, zeros
                ),
                name,
            )


def combine(first: Damage, second: Damage) -> Damage:
    """Return two damages at once.

    The second has no effect if the first removed its file.
    """

    def apply(copy: Path) -> None:
        first.apply(copy)
        with contextlib.suppress(FileNotFoundError, KeyError, IndexError):
            second.apply(copy)

    return Damage(f"{first.name}, {second.name}", apply)


def copy_of(record: Path, to: Path, damage: Damage) -> Path:
    """A copy of the record with the damage, and without what judging wrote."""
    shutil.copytree(record, to)
    for name in _JUDGED_ANEW:
        path = to / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    damage.apply(to)
    return to


def remove_sums(record: Path) -> None:
    """Make it a record of a version that wrote no SHA256SUMS."""
    (record / SUMS).unlink(missing_ok=True)


def write_current_sums(record: Path) -> None:
    """Make it a record as a run leaves it now."""
    write_sums(RecordFolder(record))


def flaw(before: Verdict, after: Verdict | EbbtideError) -> str | None:
    """Return what is wrong with the verdict on a damaged record; None if nothing is.

    It compares with the verdict on the whole record.
    """
    if isinstance(after, Bug):
        return f"a bug: {after.error!r}"
    if isinstance(after, EbbtideError):
        return None
    if after.outcome == "as-predicted" and before.outcome != "as-predicted":
        return f"{before.outcome} became as-predicted"
    if after.outcome == "contradicted" and (new := _against(after) - _against(before)):
        return f"{before.outcome} became contradicted, because {sorted(new)}"
    return None


def _against(verdict: Verdict) -> set[str]:
    """The reasons for a contradiction, without their figures. A prediction that a gap leaves open is none."""
    if verdict.outcome != "contradicted":
        return set()
    against = [why for why in verdict.why if _AGAINST.search(why) and not why.endswith("; but the record is not whole")]
    return {re.sub(r"[\d,]+", "N", why) for why in against}


def _files(record: Path) -> list[str]:
    names = [path.relative_to(record) for path in sorted(record.rglob("*")) if path.is_file()]
    return [str(name) for name in names if name.parts[0] not in _JUDGED_ANEW]


def _entries(manifest: dict[str, object]) -> Iterator[tuple[str, ...]]:
    for key, value in manifest.items():
        yield (key,)
        if isinstance(value, dict):
            yield from ((key, inner) for inner in value)


def _remove_key(record: Path, path: tuple[str, ...]) -> None:
    manifest = json.loads((record / MANIFEST).read_text())
    inner = manifest
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    (record / MANIFEST).write_text(json.dumps(manifest, indent=2))


def _spoil(path: Path, kind: Kind, at: int, bit: int, zeros: int) -> None:
    content = bytearray(path.read_bytes())
    if kind == "cut":
        del content[at:]
    elif kind == "flipped":
        content[at] ^= 1 << bit
    else:
        end = min(at + zeros, len(content))
        content[at:end] = bytes(end - at)
    path.write_bytes(content)
