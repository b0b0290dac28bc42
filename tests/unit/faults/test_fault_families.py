"""Every kind of step has a family that carries it out."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from ebbtide.record.folder import RecordFolder
from ebbtide.scenario.steps.table import KINDS, STEP_TYPES, StepKind
from faults.families import Faults


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_carried_out_by_its_own_family(kind: StepKind, tmp_path: Path) -> None:
    faults = Faults(Mock(), Mock(), Mock(), Mock(), Mock(), lambda: None, RecordFolder(tmp_path))
    carried_out = faults._plans.get(STEP_TYPES[kind]) or faults._on_a_node[kind]
    module = getattr(carried_out, "func", carried_out).__module__
    assert module == f"faults.{KINDS[kind].family}"
