"""Every kind of step and what the generator knows of it: a kind that the vocabulary gains needs a line here."""

from __future__ import annotations

from ebbtide.scenario.model import StepKind
from harness.random.kind import Kind
from harness.random.links import LINK_KINDS
from harness.random.nodes import NODE_KINDS
from harness.random.requests import REQUEST_KINDS
from harness.random.volumes import VOLUME_KINDS
from harness.random.waits import WAIT
from harness.random.wires import RULE_KINDS

KINDS: dict[StepKind, Kind] = {
    **NODE_KINDS,
    **VOLUME_KINDS,
    **LINK_KINDS,
    **RULE_KINDS,
    **REQUEST_KINDS,
    "wait": WAIT,
}
