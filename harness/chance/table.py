"""Every kind of step and what the generator knows of it: a kind that the vocabulary gains needs a line here."""

from __future__ import annotations

from harness.chance.kind import Kind
from harness.chance.links import LINK_KINDS
from harness.chance.nodes import NODE_KINDS
from harness.chance.requests import REQUEST_KINDS
from harness.chance.volumes import VOLUME_KINDS
from harness.chance.waits import WAIT
from harness.chance.wires import RULE_KINDS
from harness.scenario.model import StepKind

KINDS: dict[StepKind, Kind] = {
    **NODE_KINDS,
    **VOLUME_KINDS,
    **LINK_KINDS,
    **RULE_KINDS,
    **REQUEST_KINDS,
    "wait": WAIT,
}
