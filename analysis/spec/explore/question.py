"""Puts one question to the explorer: a variant, bounds and a property.

Commands and tests need no other entry.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from analysis.spec.explore.properties import PROPERTIES, Property
from analysis.spec.explore.search import BYTES_PER_STATE, SearchResult, search
from analysis.spec.explore.trace import Trace, trace
from analysis.spec.model.bounds import Bounds, check_bounds
from analysis.spec.model.machine import Machine
from analysis.spec.protocol import Protocol
from analysis.spec.variants import IN_NO_RELEASE, VARIANTS, cluster_for, protocol_for, release_of
from ebbtide.errors import UsageError
from ebbtide.memory import free_memory
from ebbtide.releases.known_releases import ELR_VERSION
from ebbtide.suggestions import did_you_mean

_MEMORY_SHARE = 0.8


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a search found; `trace` is the counterexample.

    `turned_down` counts the counterexamples that no replica order allows, or that were not wanted.
    """

    found: SearchResult
    trace: Trace | None = None
    turned_down: int = 0

    @property
    def holds(self) -> bool:
        """Whether every reachable state was seen and none violates the property.

        This holds for every replica order.
        """
        return self.found.ending == "exhausted" and not self.turned_down


def variant_named(name: str, *, where: str = "--variant") -> str:
    """Return the key of a variant, hyphens allowed, or of a release's variant.

    A file of the user has one while it is in use (`analysis.spec.own`). Raises UsageError for an unknown name; `where`
    is the argument that held it.
    """
    key = Path(name).stem if name.endswith(".py") else name.replace("-", "_").replace(".", "_")
    if key in VARIANTS:
        return key
    if not name[:1].isdigit():
        known = [one.replace("_", "-") for one in VARIANTS]
        raise UsageError(
            f"unknown protocol variant{did_you_mean(name, known)}",
            where=where,
            got=name,
            allowed=f"{', '.join(known)}, a Kafka release such as 4.3.1, or a FILE.py of yours",
        )
    protocol = protocol_for(name, {})
    return next(key for key, one in VARIANTS.items() if one == protocol)


def protocol_named(name: str) -> Protocol:
    """Return the variant that `--variant` names, to judge by. Raises UsageError for an unknown name."""
    return VARIANTS[variant_named(name)]


def property_named(name: str) -> Property:
    """Return the property of that name, or of a file in use. Raises UsageError for an unknown name."""
    key = Path(name).stem.replace("_", "-") if name.endswith(".py") else name
    if key not in PROPERTIES:
        allowed = f"{', '.join(PROPERTIES)}, or a FILE.py of yours"
        raise UsageError("unknown property", where="--property", got=name, allowed=allowed)
    return PROPERTIES[key]


def machine_for(variant: str, bounds: Bounds, asked: Property) -> Machine:
    """Return the state machine of a variant, with the features of a new cluster.

    The release is the variant's; the ELR is on where the variant has it.
    """
    check_bounds(bounds)
    protocol = VARIANTS[variant]
    if not protocol.recovers and (bounds.unclean_recovery != "balanced" or not bounds.recovery_manager):
        raise UsageError(
            "this variant has no unclean recovery",
            where=f"--bounds {'unclean-recovery' if bounds.recovery_manager else 'recovery-manager'}",
            got=variant.replace("_", "-"),
            allowed=", ".join(one.replace("_", "-") for one in IN_NO_RELEASE),
        )
    features = {ELR_VERSION: 1} if protocol.has_elr else {}
    return Machine(protocol, cluster_for(release_of(variant), features, (0,)), bounds, asked.promise)


def ask(
    variant: str,
    bounds: Bounds,
    asked: Property,
    *,
    max_states: int | None = None,
    max_time_s: float | None = None,
    wanted: Callable[[Trace], bool] | None = None,
) -> Answer:
    """Search for a counterexample to a property.

    `max_states` defaults to what free memory can hold; raises UsageError if memory cannot hold that
    many. `wanted` may turn down a counterexample; the search then goes on to the next one.
    """
    return ask_machine(
        machine_for(variant, bounds, asked),
        asked,
        max_states=max_states,
        max_time_s=max_time_s,
        wanted=wanted,
    )


def ask_machine(
    machine: Machine,
    asked: Property,
    *,
    max_states: int | None = None,
    max_time_s: float | None = None,
    wanted: Callable[[Trace], bool] | None = None,
) -> Answer:
    """Search as `ask` does, in a machine with feature levels of its own."""
    fitting = int(free_memory() * _MEMORY_SHARE) // BYTES_PER_STATE
    if max_states is not None and max_states > fitting:
        raise UsageError(
            "the states do not fit into memory",
            where="--bounds states",
            got=f"{max_states:,} states, which may take {max_states * BYTES_PER_STATE >> 20:,} MiB",
            allowed=f"at most {fitting:,} here",
        )
    turned_down = 0
    accepted: list[Trace] = []

    def accept(path: tuple[int, ...]) -> bool:
        nonlocal turned_down
        with_ids = trace(machine, path)
        if with_ids is None or (wanted is not None and not wanted(with_ids)):
            turned_down += 1
            return False
        accepted.append(with_ids)
        return True

    found = search(
        machine,
        check=asked.check(machine) if asked.check else None,
        accept=accept,
        max_states=fitting if max_states is None else max_states,
        max_time_s=max_time_s,
    )
    return Answer(found=found, trace=accepted[0] if accepted else None, turned_down=turned_down)
