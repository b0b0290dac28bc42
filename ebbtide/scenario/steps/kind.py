"""The properties of a kind of step besides its fields.

Every table about kinds derives from the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

Family = Literal["process", "client", "disk", "clock", "network", "admin", "recovery", "wire", "waiting"]
Healer = Literal["start", "resume", "mend-disk", "reset-clock", "heal", "release"]


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of step: its effect on a node, and what the effect means to Ebbtide."""

    family: Family
    does: str
    """One line for docs/faults.md and `ebbtide cluster fault --help`; Markdown."""
    proof: str
    """The evidence of the effect; without it the run is inconclusive. Markdown."""

    note: str | None = None
    """What the author of a scenario must also know; for docs/scenario-steps.md, Markdown."""
    unset: Mapping[str, str] = {}
    """What it means to leave out each of its optional keys, for docs/scenario-steps.md."""
    first: str = "target"
    """The key that stands first where a step is written as a call, as in `kill("leader(t-0)")`."""
    requires: str = "-"
    """The parts of the host that it needs besides a run's own, for docs/faults.md."""
    not_where: str = "-"
    """Where it does not work."""
    undone: str | None = None
    """How its traces on the host are undone, also after a killed harness; None: it leaves none."""

    either: tuple[str, str] | None = None
    """Two of its keys of which a step has exactly one."""
    only_brokers: str | None = None
    """The error for a target that is not a broker; None if it may be a controller."""
    nothing_to_end: tuple[str, str] | None = None
    """Of a healer that needs no target: what to say when there is nothing to end, and what is allowed."""

    healed_by: Healer | None = None
    """The kind of step that ends the effect."""
    ends_itself: bool = False
    """The effect ends with the step."""
    needs_process: bool = False
    """The node must run, or be paused."""
    needs_awake: bool = False
    """The node must not be paused."""
    starts: bool = False
    """The node's process runs afterwards, whatever ended it."""
    pauses: bool = False
    """The node's process stands still until something thaws or ends it."""
    may_leave_down: bool = False
    """The node may be down afterwards, and need not be."""
    clean: bool = False
    """It ends the process by a controlled shutdown."""
    loses: Literal["unflushed", "all"] | None = None
    """Which records the node's logs may lack once it is back."""
    volume: Literal["full", "dead", "slow"] | None = None
    """What is wrong with the node's volume, while the node may keep running."""
    changes_directory: bool = False
    """The log directory may be another afterwards, or offline."""
    stops_requests: bool = False
    """Requests are kept at the proxy for a while, so that a trigger can wait for them."""
    withholds: bool = False
    """A request, or its answer, may come late or never."""

    host: tuple[str, ...] = ()
    """Checks of `ebbtide doctor` that it needs, besides what every run needs."""
    counted: tuple[str, str] | None = None
    """The coverage fact that counts the nodes on which it took effect, and what that counts."""

    weight: float = 0.0
    """How often random schedules draw it, against the others; 0: never."""
    at_controllers: bool = False
    """Random schedules may aim the step at the active controller, because the quorum recovers within seconds."""
    lasts_s: float = 1.0
    """For how long a random schedule takes the act itself to last."""
    drawn: Mapping[str, tuple[str, ...]] = {}
    """The durations that a random schedule draws for its keys."""

    @property
    def takes_down(self) -> bool:
        """Whether it ends the node's process."""
        return self.healed_by == "start"

    @property
    def starts_again(self) -> bool:
        """Whether it ends a process and starts it."""
        return self.family == "process" and self.ends_itself

    @property
    def ended_by(self) -> str:
        """Return in words what ends the effect of the kind.

        It is a kind of step, `itself`, or `-` if nothing needs to end.
        """
        return self.healed_by or ("itself" if self.ends_itself else "-")
