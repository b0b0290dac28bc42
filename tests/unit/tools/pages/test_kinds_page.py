"""The tables of docs/faults.md and docs/scenario-steps.md say what the code says of each kind of step."""

from __future__ import annotations

import pytest

from ebbtide.scenario.steps.disk import FailDiskStep
from ebbtide.scenario.steps.table import ADMIN_KINDS, HEALED_BY, KINDS, STEP_TYPES
from tools.pages import kinds
from tools.pages.kinds import FAULTS, STEPS, faults_page, steps_page


def rows(page: str, first: str) -> list[str]:
    """The rows of the page that begin with this cell."""
    return [line for line in page.splitlines() if line.startswith(f"| {first} |")]


def test_both_pages_are_those_of_the_code() -> None:
    assert FAULTS.read_text() == faults_page(FAULTS.read_text()), "python -m tools.pages.catalogue"
    assert STEPS.read_text() == steps_page(STEPS.read_text()), "python -m tools.pages.catalogue"


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_one_row_of_steps_and_all_but_waiting_one_of_proofs(kind: str) -> None:
    table_of_steps = STEPS.read_text().partition("\n## ")[0]
    assert len(rows(table_of_steps, f"`{kind}`")) == 1
    assert [line for line in rows(FAULTS.read_text(), kind) if KINDS[kind].proof in line] == (
        [] if kind == "wait" else [f"| {kind} | {KINDS[kind].does} | {KINDS[kind].proof} | {KINDS[kind].ended_by} |"]
    )


def test_every_kind_with_an_effect_says_how_it_is_undone() -> None:
    lasting = {kind for kind, one in KINDS.items() if kind in HEALED_BY or one.ends_itself or kind in ADMIN_KINDS}
    assert {kind for kind in lasting if KINDS[kind].undone is None} == set()


def test_a_new_disk_fault_comes_into_every_table_by_its_struct_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class RotDiskStep(FailDiskStep, frozen=True, kw_only=True, tag="rot-disk"):
        pass

    monkeypatch.setattr(kinds, "KINDS", {**KINDS, "rot-disk": FailDiskStep.kind})
    monkeypatch.setitem(STEP_TYPES, "rot-disk", RotDiskStep)  # type: ignore[arg-type]
    faults, steps = faults_page(FAULTS.read_text()), steps_page(STEPS.read_text())
    assert len(rows(faults, "rot-disk")) == len(rows(steps, "`rot-disk`")) == 1
    assert "| fill-disk, read-only, fail-disk, rot-disk | loop mounts |" in faults


def test_a_page_without_the_mark_is_refused() -> None:
    with pytest.raises(AssertionError, match="the mark of catalogue and the table"):
        faults_page("# Faults\n")
