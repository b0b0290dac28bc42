"""Reads rules of the user: files with a clause, which `--rule` names, or with a property, which `--property` names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from analysis.judge.rules.clause import Clause, Finding, Judged, finding, state_row
from analysis.judge.rules.partitions.states import all_states
from analysis.judge.rules.registry import ANOMALIES, CLAUSES
from analysis.judge.trace.world import ControllerKnowledge, model_of
from analysis.spec.invariants import Invariant
from analysis.spec.own import PROPERTY_FILE, invariant_in
from ebbtide.own_code import run_own_file
from ebbtide.record.verdict import RuleFile

_RULE_FILE = "a Python file with `RULE = Clause(kip=..., check=...)`"


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
    own = run_own_file(path, "rule file", f"{_RULE_FILE}, or {PROPERTY_FILE}")
    if own.name in taken or own.name in {one.name for one in CLAUSES} | {one.name for one in ANOMALIES}:
        raise own.error("another rule has this name", own.name, allowed="a file with another name")
    rule = getattr(own.module, "RULE", None)
    if rule is None and hasattr(own.module, "holds"):
        rule = _clause_of(invariant_in(own), own.module)
    if not isinstance(rule, Clause):
        raise own.error("the file has no rule", "no RULE" if rule is None else f"RULE is a {type(rule).__name__}")
    if rule.name != own.name:
        raise own.error("the check is not of this file", f"one of {rule.module}", allowed="a function of the file")
    return OwnRule(rule, RuleFile(name=own.name, file=path.name, sha256=own.sha256, needed=rule.needed))


def _clause_of(rule: Invariant, module: ModuleType) -> Clause:
    """Return a clause that holds if every recorded state of a partition has the property."""

    def check(judged: Judged) -> Finding:
        record = judged.record
        world = ControllerKnowledge(record.timeline, record.protocol, record.statics)
        states = all_states(record.timeline)
        broken = [
            state_row(one)
            for one in states
            if not rule.holds(model_of(one), world.cluster(one.topic, one.metadata_offset + 1))
        ]
        return finding(exercised=len(states), violations=broken)

    check.__module__, module.__doc__ = module.__name__, rule.source
    return Clause(kip="your property", check=check)
