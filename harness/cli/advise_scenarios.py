"""Writes the scenarios of `ebbtide advise --scenario FOLDER`."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide.errors import UsageError
from ebbtide.named_files import write_named_file
from ebbtide.plurals import plural

if TYPE_CHECKING:
    from analysis.advise.advice import Advice

_SHOWN_MAX = 10


def check_folder(folder: Path) -> None:
    """Raise `UsageError` unless the folder is empty, or can be made, as far as a check can see.

    Makes nothing, so that a command which fails later leaves nothing.
    """
    try:
        found = next(folder.iterdir(), None) if os.path.lexists(folder) else None
        existing = next(one for one in (folder.absolute(), *folder.absolute().parents) if os.path.lexists(one))
        next(existing.iterdir(), None)  # says whether it is a folder
    except OSError as error:
        raise _cannot_be_made(folder, error.strerror) from None
    if found is not None:
        raise UsageError(
            "the folder is not empty", where="--scenario", got=str(found), allowed="an empty folder, or a new one"
        )
    if not os.access(existing, os.W_OK | os.X_OK):
        raise _cannot_be_made(folder, os.strerror(errno.EACCES))


def _cannot_be_made(folder: Path, why: str | None) -> UsageError:
    return UsageError(
        "the folder cannot be made", where="--scenario", got=f"{folder}: {why}", allowed="an empty folder"
    )


def write_scenarios(folder: Path, advice: Advice) -> list[str]:
    """Write a scenario for each line, and return what to say: how many, and the lines without one.

    Makes the folder. Raises `UsageError`.
    """
    from analysis.advise.scenarios import prefix_of, scenarios_of

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot_be_made(folder, error.strerror) from None
    written: list[Path] = []
    missing: dict[str, None] = {}  # two lines of today are the same event where another RF has more brokers
    for one in advice.groups:
        sides = [(one.group, [line.today for line in one.lines], advice.release, "")]
        if advice.after is not None and one.after is not None:
            after = [line.after for line in one.lines if line.after is not None]
            sides.append((one.after, after, advice.after, "then-"))
        for group, lines, release, prefix in sides:
            for scenario in scenarios_of(group, lines, release, prefix=prefix + prefix_of(group.settings)):
                path = folder / f"{scenario.name}.toml"
                if scenario.text is None:
                    missing[f"  {scenario.name}: {scenario.why}"] = None
                elif path not in written:
                    write_named_file(path, scenario.text.encode(), "scenario")
                    written.append(path)
    said = [f"scenarios: {plural(len(written), 'file')} in {folder}"]
    if missing:
        said += [f"without a scenario: {plural(len(missing), 'answer')}", *list(missing)[:_SHOWN_MAX]]
        if len(missing) > _SHOWN_MAX:
            said.append(f"  and {len(missing) - _SHOWN_MAX} more")
    if written:
        said.append(f"next: ebbtide run {written[0]}")
    return said
