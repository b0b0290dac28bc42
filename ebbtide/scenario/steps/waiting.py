"""The step that does nothing but wait."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from ebbtide.scenario.steps.kind import Kind

WaitingKind = Literal["wait"]

WAITING: Mapping[WaitingKind, Kind] = {
    "wait": Kind(
        family="waiting",
        does="waits for its trigger",
        proof="the trigger fired",
        needs=("trigger",),
        spends=(),
        weight=6.0,
    ),
}
