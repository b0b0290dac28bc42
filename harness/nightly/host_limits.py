"""Finds the scenarios that this host cannot run, which the night skips.

The summary of the night lists them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cluster.doctor import LIBRDKAFKA_CLIENTS, VOLUMES, XFS_POWER_LOSS, Check
from ebbtide.errors import HarnessError
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.steps.table import DISK_TROUBLES
from harness.nightly.job import Job
from harness.nightly.store import SkippedJob
from harness.runner.host import librdkafka_users


def unavailable_abilities(checks: Iterable[Check]) -> dict[str, str]:
    """Return what the host cannot do, each with the reason.

    The keys are kinds of step, and other abilities that `cluster.doctor` names.
    """
    found: dict[str, str] = {}
    for check in checks:
        if check.status != "ok":
            for what in check.disables:
                found.setdefault(what, f"this host lacks {check.name} ({check.detail})")
    if VOLUMES in found:
        # Without volumes, a power loss truncates files, and nodes have no disk that a fault could damage.
        found = dict.fromkeys(DISK_TROUBLES, found[VOLUMES]) | found
        # The file system does not matter to truncate.
        found.pop(XFS_POWER_LOSS, None)
    return found


def split_jobs(
    jobs: Iterable[Job], scenarios: Iterable[Scenario], impossible: Mapping[str, str]
) -> tuple[list[Job], tuple[SkippedJob, ...]]:
    """Split jobs into those that the host can run and those it skips.

    `impossible`: what the host cannot do, as `unavailable_abilities` returns it. Raises `HarnessError` if the
    host can run none of the jobs.
    """
    why = {one.name: impossible[need] for one in scenarios for need in _needs(one) if need in impossible}
    can, skipped = [], []
    for job in jobs:
        if job.scenario in why:
            skipped.append(SkippedJob(job=job, why=why[job.scenario]))
        else:
            can.append(job)
    if skipped and not can:
        raise HarnessError(
            "this host can run none of these scenarios",
            got="; ".join(dict.fromkeys(one.why for one in skipped)),
            next="ebbtide doctor",
        )
    return can, tuple(skipped)


def _needs(scenario: Scenario) -> list[str]:
    """Return the kinds of step of a scenario, and what else a host may lack for it."""
    needs = sorted({step.step for step in scenario.steps})
    if scenario.cluster.file_system == "xfs":
        needs.append(XFS_POWER_LOSS)
    if librdkafka_users(scenario):
        needs.append(LIBRDKAFKA_CLIENTS)
    return needs
