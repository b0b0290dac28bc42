"""Finds the registrations with which brokers returned, after unclean shutdowns or clean stops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ebbtide.record.log_losses import UNCLEAN_STEPS
from ebbtide.record.rows import BrokerEvent
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.steps.disk import WipeDiskStep
from ebbtide.scenario.steps.process import StopStep


def unclean_registrations(steps: Sequence[StepEntry], brokers: Sequence[BrokerEvent]) -> Iterator[BrokerEvent]:
    """Yield the registrations with which a broker returned from an unclean shutdown.

    No metadata record says so: it follows from the steps. A registration counts if the last step
    that took the broker down was a proven kill or power loss while it ran. It does not count if a
    step had stopped the broker cleanly before. A second registration of the running process (same
    incarnation) is not a return.
    """
    for event, since in _returns(steps, brokers):
        if since[0].step in UNCLEAN_STEPS and since[0].effect_ns is not None:
            yield event


def returns_with_a_replaced_disk(steps: Sequence[StepEntry], brokers: Sequence[BrokerEvent]) -> Iterator[BrokerEvent]:
    """Yield the registrations after a clean stop whose broker got another disk meanwhile.

    The file that says that the shutdown was clean is on the old disk.
    """
    for event, since in _returns(steps, brokers):
        wiped = [one for one in since if one.is_a(WipeDiskStep) and one.asked.directory is None]
        if since[0].is_a(StopStep) and any(one.effect_ns is not None for one in wiped):
            yield event


def returns_from_a_stop(
    steps: Sequence[StepEntry], brokers: Sequence[BrokerEvent]
) -> Iterator[tuple[BrokerEvent, StepEntry]]:
    """Yield the registrations with which a broker returned from a proven clean stop, and that stop.

    No other step touched the broker's process or disk in between.
    """
    for event, since in _returns(steps, brokers):
        if len(since) == 1 and since[0].step == "stop" and since[0].effect_ns is not None:
            yield event, since[0]


def _returns(
    steps: Sequence[StepEntry], brokers: Sequence[BrokerEvent]
) -> Iterator[tuple[BrokerEvent, list[StepEntry]]]:
    """Yield the registrations of new processes after steps that took the broker down, with these steps."""
    for at, event in enumerate(brokers):
        if event.event != "registered":
            continue
        earlier = [one for one in brokers[:at] if one.broker == event.broker and one.event == "registered"]
        if not earlier or (event.incarnation is not None and earlier[-1].incarnation == event.incarnation):
            continue
        since = [
            step
            for step in steps
            if event.broker in step.nodes
            and step.fired_ns is not None
            and earlier[-1].at_ns <= step.fired_ns < event.at_ns
            and (step.step in UNCLEAN_STEPS or step.is_a(StopStep))
        ]
        if since:
            yield event, since
