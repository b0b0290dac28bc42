"""The generator of each kind of step.

`ebbtide.scenario.steps` says how often each kind is drawn.
"""

from __future__ import annotations

from ebbtide.scenario.steps.table import StepKind
from harness.random.directories import MOVE_REPLICA
from harness.random.kind import StepGenerator
from harness.random.links import LINK_KINDS
from harness.random.nodes import NODE_KINDS
from harness.random.quorum import QUORUM_KINDS
from harness.random.requests import REQUEST_KINDS
from harness.random.upgrades import UPGRADE
from harness.random.volumes import VOLUME_KINDS
from harness.random.waits import WAIT
from harness.random.wires import RULE_KINDS

GENERATORS: dict[StepKind, StepGenerator] = {
    **NODE_KINDS,
    **VOLUME_KINDS,
    **LINK_KINDS,
    **RULE_KINDS,
    **REQUEST_KINDS,
    **QUORUM_KINDS,
    "move-replica": MOVE_REPLICA,
    "upgrade": UPGRADE,
    "wait": WAIT,
}
