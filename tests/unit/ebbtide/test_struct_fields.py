"""The fields of a struct type are msgspec's, worked out once."""

from __future__ import annotations

import msgspec

from ebbtide.scenario.model import Scenario
from ebbtide.scenario.steps.step import struct_fields


def test_the_fields_are_those_of_msgspec() -> None:
    assert struct_fields(Scenario) == msgspec.structs.fields(Scenario)


def test_the_fields_of_a_type_are_worked_out_once() -> None:
    assert struct_fields(Scenario) is struct_fields(Scenario)
