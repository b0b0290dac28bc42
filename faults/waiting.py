"""The step that does nothing but wait: once its trigger has fired, it is done."""

from __future__ import annotations

from ebbtide.scenario.steps.waiting import WaitStep
from faults.base import proven
from faults.injector import Family, Plan

WAITING = Family(plans={WaitStep: lambda _step: Plan(nodes=(), told="", act=proven)})
