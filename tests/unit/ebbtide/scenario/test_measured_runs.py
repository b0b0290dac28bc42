"""The measured run times are at the bottom: nights need nothing of advice."""

from __future__ import annotations

import ast

from checkout import ROOT

from ebbtide.scenario.shipped import measured_rows


def test_every_scenario_that_was_measured_took_some_time() -> None:
    assert len(measured_rows()) > 100
    assert min(row.took_s for row in measured_rows()) > 0


def test_nights_import_nothing_of_advice() -> None:
    for path in (ROOT / "harness" / "nightly").rglob("*.py"):
        imported = {
            one.module or "" for one in ast.walk(ast.parse(path.read_text())) if isinstance(one, ast.ImportFrom)
        }
        assert not {name for name in imported if name.startswith("analysis.advise")}, path
