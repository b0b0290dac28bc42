"""Reads rules of the user: files with a clause, which `--rule` names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from analysis.judge.rules.clause import Clause
from analysis.judge.rules.registry import ANOMALIES, CLAUSES
from ebbtide.own_code import run_own_file
from ebbtide.record.verdict import RuleFile


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
    own = run_own_file(path, "rule file", "a Python file with `RULE = Clause(module=__name__, doc=__doc__, ...)`")
    if own.name in taken or own.name in {one.name for one in CLAUSES} | {one.name for one in ANOMALIES}:
        raise own.error("another rule has this name", own.name, allowed="a file with another name")
    rule = getattr(own.module, "RULE", None)
    if not isinstance(rule, Clause):
        raise own.error("the file has no rule", "no RULE" if rule is None else f"RULE is a {type(rule).__name__}")
    if rule.name != own.name:
        raise own.error("the rule is not called as its file", f"module={rule.module!r}", allowed="module=__name__")
    return OwnRule(rule, RuleFile(name=own.name, file=path.name, sha256=own.sha256, needed=rule.needed))
