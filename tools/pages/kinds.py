"""Writes the tables of faults in docs/faults.md, and those of steps in docs/scenario-steps.md.

The struct and the `Kind` of each step in `ebbtide.scenario.steps` have everything that the tables
say. `python -m tools.pages.catalogue` writes them; a test compares the pages with the code.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from ebbtide.scenario.plain_values import STEP_KEYS
from ebbtide.scenario.steps.network import BetweenStep
from ebbtide.scenario.steps.table import COMMON_KEYS, KINDS, SHOWN, STEP_TYPES, StepKind, keys_of, types_of
from tools.pages.tables import with_table

DOCS = Path(__file__).resolve().parents[2] / "docs"
FAULTS = DOCS / "faults.md"
STEPS = DOCS / "scenario-steps.md"

_PROGRAM = "catalogue"
_PROOFS = ("step", "does", "proof that it took effect", "healed by")
_NEEDS = ("steps", "need besides a run's own needs", "where not", "undone, also after a killed harness")
_STEPS = ("step", "keys", "optional keys", "does")
_KEYS = ("key", "value")
_NOT_OF_A_KIND = {*COMMON_KEYS, "expect_error"}
"""Keys that the page describes for many kinds at once."""


def faults_page(text: str) -> str:
    """Return docs/faults.md with new tables; the rest of the text stays."""
    return with_table(with_table(text, _PROGRAM, _PROOFS, _proof_rows()), _PROGRAM, _NEEDS, _need_rows())


def steps_page(text: str) -> str:
    """Return docs/scenario-steps.md with new tables; the rest of the text stays."""
    return with_table(with_table(text, _PROGRAM, _STEPS, _step_rows()), _PROGRAM, _KEYS, _key_rows())


def write() -> None:
    """Write both pages with new tables."""
    FAULTS.write_text(faults_page(FAULTS.read_text()))
    STEPS.write_text(steps_page(STEPS.read_text()))


def _proof_rows() -> Iterator[tuple[str, ...]]:
    for kind, one in KINDS.items():
        if one.family != "waiting":
            yield kind, one.does, one.proof, one.ended_by


def _need_rows() -> Iterator[tuple[str, ...]]:
    """One row for all kinds with the same needs."""
    alike: dict[tuple[str, str, str], list[StepKind]] = {}
    for kind, one in KINDS.items():
        if one.undone is not None:
            alike.setdefault((one.requires, one.not_where, one.undone), []).append(kind)
    for cells, kinds in alike.items():
        yield ", ".join(kinds), *cells


def _step_rows() -> Iterator[tuple[str, ...]]:
    for kind in KINDS:
        yield f"`{kind}`", *_keys(kind), _describe_kind(kind)


def _describe_kind(kind: StepKind) -> str:
    """What a step does, and what its author must also know."""
    one = KINDS[kind]
    parts = [one.does, one.note]
    if one.takes_down:
        parts.append("the node stays down")
    if one.may_leave_down:
        parts.append("a node that ended needs a `start`")
    return "; ".join(filter(None, parts))


def _keys(kind: StepKind) -> tuple[str, str]:
    """The keys that a step of this kind needs, and those that it may have."""
    one = KINDS[kind]
    needed, possible = keys_of(kind)
    must = [f"`{key}`" for key in needed if key not in _NOT_OF_A_KIND or key == "trigger"]
    chosen: set[str] = set()
    if issubclass(STEP_TYPES[kind], BetweenStep):
        must.insert(0, "`groups` or both `from` and `to`")
        chosen |= {"groups", "from", "to"}
    if one.either is not None:
        must.append("`{}` or `{}`".format(*one.either))
        chosen |= {*one.either}
    may = [f"`{key}` ({one.unset[key]})" for key in possible if key not in _NOT_OF_A_KIND | chosen]
    return ", ".join(must) or "-", ", ".join(may) or "-"


def _key_rows() -> Iterator[tuple[str, ...]]:
    flags = {key for kind in KINDS for key, type_ in types_of(kind).items() if "bool" in type_}
    for key in STEP_KEYS:
        if key not in _NOT_OF_A_KIND and (texts := _texts_of(key)):
            value = re.sub(r"(?<!\w)'[^']+'", r"`\g<0>`", "; ".join(texts))
            yield f"`{key}`", f"`true`: {value}" if key in flags else value


def _texts_of(key: str) -> list[str]:
    """What stands for a key: the words of most kinds, then those of kinds for which it means something else."""
    by_kind = {kind: words[key] for kind, words in SHOWN.items() if key in words}
    if not by_kind:
        return []
    (usual, _), *others = Counter(by_kind.values()).most_common()
    named = [(words, [f"`{kind}`" for kind, one in by_kind.items() if one == words]) for words, _ in others]
    return [usual, *(f"of {', '.join(kinds)}: {words}" for words, kinds in named)]
