"""Reads rules of the user: files with a clause, which `--rule` names.

Such a file runs as the user. So only a command line names it, never a record or a scenario.
"""

from __future__ import annotations

import hashlib
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from analysis.judge.rules.clause import Clause
from analysis.judge.rules.registry import ANOMALIES, CLAUSES
from ebbtide.errors import UsageError
from ebbtide.record.verdict import RuleFile
from ebbtide.untrusted.files import read_file

_PACKAGE = "ebbtide_own_rules"
_ALLOWED = "a Python file with `RULE = Clause(module=__name__, doc=__doc__, ...)`"


class OwnRule(NamedTuple):
    """A clause of the user, and the file that it is in."""

    clause: Clause
    file: RuleFile


_in_use: tuple[OwnRule, ...] = ()


def own_rules_in_use() -> Sequence[OwnRule]:
    """Return the rules of the user that records are judged with now."""
    return _in_use


@contextmanager
def own_rules(paths: Sequence[Path]) -> Iterator[None]:
    """Judge the records of the block with the clauses of some files, too. Raises `UsageError` for a wrong file."""
    global _in_use
    read: list[OwnRule] = []
    for path in paths:
        read.append(read_own_rule(path, taken=[one.clause.name for one in read]))
    before, _in_use = _in_use, tuple(read)
    try:
        yield
    finally:
        _in_use = before


def read_own_rule(path: Path, taken: Sequence[str] = ()) -> OwnRule:
    """Read the clause of one file. Raises `UsageError`; `taken` are names of rules that other files have."""
    if path.suffix != ".py" or not path.stem.isidentifier() or not path.stem.islower():
        allowed = "small letters, digits and _, then .py: the rule is called as its file"
        raise UsageError("a rule file cannot be called so", where=str(path), got=path.name, allowed=allowed)
    content = read_file(path, what="the rule file")
    name = path.stem.replace("_", "-")
    if name in taken or name in {one.name for one in CLAUSES} | {one.name for one in ANOMALIES}:
        raise _wrong(path, "another rule has this name", name, allowed="a file with another name")
    rule = getattr(_run(path, content), "RULE", None)
    if not isinstance(rule, Clause):
        raise _wrong(path, "the file has no rule", "no RULE" if rule is None else f"RULE is a {type(rule).__name__}")
    if rule.name != name:
        raise _wrong(path, "the rule is not called as its file", f"module={rule.module!r}", allowed="module=__name__")
    digest = hashlib.sha256(content).hexdigest()
    return OwnRule(rule, RuleFile(name=name, file=path.name, sha256=digest, needed=rule.needed))


def _run(path: Path, content: bytes) -> ModuleType:
    spec = spec_from_file_location(f"{_PACKAGE}.{path.stem}", path)
    assert spec is not None
    module = module_from_spec(spec)
    sys.modules[module.__name__] = module
    try:
        exec(compile(content, path, "exec"), vars(module))
    except SyntaxError as error:
        raise _wrong(path, "the rule file is not Python", str(error.msg), line=error.lineno) from None
    except (Exception, SystemExit) as error:
        own = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        got = f"{type(error).__name__}: {error}"
        raise _wrong(path, "the rule file cannot be loaded", got, line=own[-1] if own else None) from None
    return module


def _wrong(path: Path, what: str, got: str, *, allowed: str = _ALLOWED, line: int | None = None) -> UsageError:
    where = str(path) if line is None else f"{path}, line {line}"
    return UsageError(what, where=where, got=got, allowed=allowed)
