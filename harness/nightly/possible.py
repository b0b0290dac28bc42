"""What of a night this host cannot do: it is left out, and said, rather than refused or failed run by run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cluster.doctor import VOLUMES, Check
from ebbtide.errors import HarnessError
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.steps.table import DISK_TROUBLES
from harness.nightly.job import Job
from harness.nightly.store import Skipped


def lacking(checks: Iterable[Check]) -> dict[str, str]:
    """Kinds of step that the host cannot do, each with what it lacks."""
    found: dict[str, str] = {}
    for check in checks:
        if check.status != "ok":
            for what in check.disables:
                found.setdefault(what, f"this host lacks {check.name} ({check.detail})")
    if VOLUMES in found:
        # Power is then lost by truncate, and the nodes have no volumes of their own.
        found = dict.fromkeys(DISK_TROUBLES, found[VOLUMES]) | found
    return found


def split(
    jobs: Iterable[Job], scenarios: Iterable[Scenario], impossible: Mapping[str, str]
) -> tuple[list[Job], tuple[Skipped, ...]]:
    """The jobs that the host can do, and the others. Raises `HarnessError` where none is left."""
    why = {one.name: impossible[kind] for one in scenarios for kind in _kinds(one) if kind in impossible}
    can, skipped = [], []
    for job in jobs:
        if job.scenario in why:
            skipped.append(Skipped(job=job, why=why[job.scenario]))
        else:
            can.append(job)
    if skipped and not can:
        raise HarnessError(
            "this host can run none of these scenarios",
            got="; ".join(dict.fromkeys(one.why for one in skipped)),
            next="ebbtide doctor",
        )
    return can, tuple(skipped)


def _kinds(scenario: Scenario) -> list[str]:
    return sorted({step.step for step in scenario.steps})
