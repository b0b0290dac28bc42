"""The scenarios that come with Ebbtide, and how a name or path on the command line becomes one."""

from __future__ import annotations

import shlex
from importlib import resources
from pathlib import Path

from ebbtide.errors import UsageError
from ebbtide.scenario.check import suggestion
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.parse import load, parse


def names() -> list[str]:
    """Names of the shipped scenarios."""
    return sorted(entry.name.removesuffix(".toml") for entry in _folder().iterdir() if entry.name.endswith(".toml"))


def text_of(name: str) -> str:
    """The TOML text of a shipped scenario; raises `UsageError` for an unknown one."""
    known = names()
    if name not in known:
        raise UsageError(
            "unknown scenario",
            got=repr(name),
            allowed=", ".join(known) + ", or the path of a .toml file" + suggestion(name, known),
            next="ebbtide scenarios",
        )
    return (_folder() / f"{name}.toml").read_text("utf-8")


def find(name_or_path: str) -> Scenario:
    """A scenario, by the name of a shipped one or by path; a file is checked as one that its author wrote."""
    path = Path(name_or_path)
    if path.suffix == ".toml" or path.is_file():
        return load(path, next=f"ebbtide validate {shlex.quote(str(path))}", strict=True)
    file = Path(f"{name_or_path}.toml")
    named = name_or_path in names()
    if not named and file.is_file():
        raise UsageError(
            f"no scenario of the catalogue, did you mean {file}?",
            got=repr(name_or_path),
            allowed="a name that `ebbtide scenarios` lists, or the path of a .toml file",
            next=f"ebbtide validate {shlex.quote(str(file))}",
        )
    if not named and path.is_dir():
        raise UsageError(
            "a folder, and no scenario",
            got=repr(name_or_path),
            allowed="a name that `ebbtide scenarios` lists, or the path of a .toml file",
            next="ebbtide scenarios",
        )
    return parse(text_of(name_or_path), file=f"{name_or_path}.toml", to_run=True)


def _folder() -> resources.abc.Traversable:
    return resources.files("ebbtide") / "scenarios"
