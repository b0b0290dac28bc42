"""The shipped scenarios, and how a command line names a scenario.

It names a shipped scenario, or the path of a file.
"""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from ebbtide.errors import COMMAND_LINE, EbbtideError, Problems, UsageError
from ebbtide.scenario.kafka_settings import RefusedByKafka
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.parse import load, parse, read_scenario_text
from ebbtide.scenario.shipped import shipped_files
from ebbtide.scenario.write import SCENARIO
from ebbtide.suggestions import meant_name, nearest_names
from ebbtide.untrusted.files import is_file, is_folder, path_from

_MANIFEST = "manifest.json"
"""Marks the folder of a run record, whose scenario.toml is not there to be run."""


def names() -> list[str]:
    """Return the names of the shipped scenarios, sorted."""
    return list(shipped_files())


def text_of(name: str) -> str:
    """Return the TOML text of a shipped scenario.

    Raises `UsageError` for an unknown name.
    """
    known = names()
    if name not in known:
        near = ", ".join(nearest_names(name, known)) or "a name that `ebbtide scenarios` lists"
        meant = meant_name(name, known)
        raise UsageError(
            "unknown scenario" + (f", did you mean {meant}?" if meant is not None else ""),
            got=repr(name),
            allowed=f"{near}, or the path of a .toml file",
            next=f"ebbtide scenarios    (lists all {len(known)})",
        )
    return shipped_files()[name].read_text("utf-8")


def find(name_or_path: str) -> Scenario:
    """Find a scenario by the name of a shipped one, or by path.

    A file gets the strict checks for authors. Raises `UsageError` or `Problems`.
    """
    path = path_from(name_or_path)
    if path.suffix == ".toml" and path.stem in names() and not os.path.lexists(path):
        raise UsageError(
            f"no such file, did you mean the scenario {path.stem}?",
            where=str(path),
            allowed="a name that `ebbtide scenarios` lists, or the path of a .toml file",
            next=f"ebbtide scenarios show {path.stem} > {shlex.quote(str(path))}    (makes the file)",
        )
    if path.suffix == ".toml" or is_file(path):
        return load(path, next=f"ebbtide scenarios check {shlex.quote(str(path))}", strict=True)
    file = None if is_folder(path) and not is_file(Path(f"{name_or_path}.toml")) else _meant_file(name_or_path)
    named = name_or_path in names()
    if not named and file is not None:
        raise UsageError(
            f"not a scenario of the catalogue, did you mean {file}?",
            got=repr(name_or_path),
            allowed="a name that `ebbtide scenarios` lists, or the path of a .toml file",
            next=f"ebbtide scenarios check {shlex.quote(str(file))}",
        )
    if not named and is_folder(path):
        inner = path / SCENARIO
        raise UsageError(
            "this is a folder, not a scenario",
            got=repr(name_or_path),
            allowed="a name that `ebbtide scenarios` lists, the path of a .toml file, or a folder of .toml files",
            next=f"ebbtide scenarios check {shlex.quote(str(inner))}" if is_file(inner) else "ebbtide scenarios",
        )
    return parse(text_of(name_or_path), file=f"{name_or_path}.toml", to_run=True)


def find_all(words: Sequence[str]) -> list[tuple[str, Scenario]]:
    """Find the scenarios of several words, each with its word; a folder stands for the .toml files in it.

    Raises `UsageError` or `Problems` with the mistakes of all of them.
    """
    found, wrong = list[tuple[str, Scenario]](), list[EbbtideError]()
    for word in (one for typed in words for one in _files_of(typed)):
        try:
            found.append((word, find(word)))
        except UsageError as error:
            wrong.append(error)
    if wrong:
        raise wrong[0] if len(wrong) == 1 else Problems(COMMAND_LINE, wrong)
    return found


def _files_of(word: str) -> list[str]:
    """Return the scenario files of a folder; any other word, and the folder of a record, stand for themselves."""
    folder = path_from(word)
    if word in names() or not is_folder(folder) or is_file(folder / _MANIFEST):
        return [word]
    return [str(path) for path in sorted(folder.glob("*.toml"))] or [word]


def _meant_file(name_or_path: str) -> Path | None:
    """Return the .toml file beside it that a word without this ending may mean: `my`, `my.tom`."""
    path = Path(f"{name_or_path}.toml")
    beside = path.parent.glob("*.toml") if "." in path.stem else ()
    near = meant_name(Path(name_or_path).name, [one.name for one in beside])
    found = path if near is None else path.with_name(near)
    return found if is_file(found) else None


@contextlib.contextmanager
def located_refusals(name_or_path: str | None, again: str) -> Iterator[None]:
    """Name the file and the lines of settings that Kafka refuses while the block runs, and what to type next.

    The scenario of the block is the one that `find` has just returned for this name. None: it has no file. `again` is
    the command that takes the file, such as `ebbtide run`.
    """
    if name_or_path is None:
        yield
        return
    path = path_from(name_or_path)
    if is_file(path):
        file, text = str(path), read_scenario_text(path)
        next_ = f"{again} {shlex.quote(file)}    (once the file is right)"
    else:
        file, text = f"{name_or_path}.toml", text_of(name_or_path)
        next_ = f"ebbtide scenarios show {name_or_path} > my.toml    (a copy that you can change)"
    # The file may be changed or removed while the block runs.
    try:
        yield
    except RefusedByKafka as error:
        raise error.in_file(file, text, next_) from None
