"""docs/kips.md names every clause that the specification, the trace check and the judge stand on."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from analysis.judge.trace.of_run import ACTION_CLAUSES as ACTIONS
from analysis.spec.invariants import invariants_of
from analysis.spec.variants import VARIANTS
from ebbtide.rules.table import CLAUSES
from ebbtide.scenario.catalogue import names

PAGE = Path(__file__).parents[2] / "docs" / "kips.md"
FINDINGS = PAGE.parent / "findings" / "README.md"
CAUSES = {"uncommitted-at-failover", "beyond-tolerance", "stale-isr-join"}


class Row(NamedTuple):
    section: str
    clause: str
    says: str
    modelled: str
    checked: str
    provoked: str
    holds: str


def rows() -> list[Row]:
    found, section = [], ""
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            section = line
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and len(cells) == 6 and cells[0] != "clause":
            found.append(Row(section, *cells))
    return found


ROWS = rows()
PROPERTIES = [one.name for one in CLAUSES.values() if one.kip.startswith("KIP-")]


def has_row(kip: str, clause: str) -> bool:
    return any(kip in row.section and row.clause == clause for row in ROWS)


@pytest.mark.parametrize("source", sorted({one for text in ACTIONS.values() for one in text.split("; ")}))
def test_every_clause_that_an_action_stands_on_has_a_row(source: str) -> None:
    kip, _, clause = source.partition(", ")
    assert has_row(kip, clause or kip)


@pytest.mark.parametrize("name", PROPERTIES)
def test_every_property_is_named(name: str) -> None:
    is_named = name in PAGE.read_text()
    assert is_named, f"docs/kips.md does not say where {name} belongs: it goes into the column *checked*"


def test_every_clause_of_the_invariants_has_a_row() -> None:
    sources = {rule.source for variant in VARIANTS for rule in invariants_of(variant)}
    clauses = {one for source in sources for one in re.findall(r"KIP-966, ([A-Z][\w ]+)", source)}
    assert clauses
    for clause in clauses:
        stem = re.sub(r"[a-z]$", "", clause) if clause[-2].isdigit() else clause
        assert any("KIP-966" in row.section and row.clause.startswith(stem) for row in ROWS), clause


def test_only_scenarios_and_properties_that_exist_are_named() -> None:
    known = {*names(), *CLAUSES, *CAUSES}
    for row in ROWS:
        for word in re.findall(r"(?<![`\w/.-])[a-z]+(?:-[a-z]+)+(?![\w(-])", f"{row.checked} {row.provoked}"):
            assert word in known, (row.clause, word)


def test_every_event_named_as_a_model_exists() -> None:
    protocol = VARIANTS["kip966"]
    for row in ROWS:
        for name in re.findall(r"`([a-z_]+)(?:\([^)]*\))?`", row.modelled):
            assert hasattr(protocol, name) or name in ("kip966", "tolerated_losses"), (row.clause, name)


def test_the_tolerance_names_each_finding_that_loses_records_within_it() -> None:
    found = re.findall(
        r"^\| \[([\w-]+)\]\([^|]+\| [01] \| [01] \|", FINDINGS.read_text().split("\nRuns of ")[0], re.MULTILINE
    )
    (tolerance,) = [row for row in ROWS if row.clause == "Motivation, tolerance"]
    assert len(found) == 6
    assert set(re.findall(r"[a-z]+(?:-[a-z]+)+", tolerance.holds)) == {*found}
