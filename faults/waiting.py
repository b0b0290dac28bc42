"""The step that only waits: it is done once its trigger has fired."""

from __future__ import annotations

from ebbtide.scenario.steps.waiting import WaitStep
from faults.base import proven_effect
from faults.injector import Family, Plan

WAITING = Family(plans={WaitStep: lambda _step: Plan(nodes=(), description="", act=proven_effect)})
