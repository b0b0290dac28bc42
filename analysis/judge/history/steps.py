"""Finds in the steps what they did: to clients, to disks, and to brokers that returned with a new registration."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from analysis.record.record import Record
from ebbtide.errors import UsageError
from ebbtide.record.log_losses import UNCLEAN_STEPS
from ebbtide.record.rows import BrokerEvent
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.steps.clients import ClientName, ClientStep, StartClientStep
from ebbtide.scenario.steps.disk import PowerLossStep, WipeDiskStep
from ebbtide.scenario.steps.process import StopStep
from ebbtide.scenario.steps.table import CLOCK_KINDS, KINDS, NEEDS_A_SOUND_VOLUME

TOUCHES = NEEDS_A_SOUND_VOLUME | CLOCK_KINDS
"""The kinds of steps that touch a disk or a clock."""


class ClientDown(NamedTuple):
    """A client that `step` took down; `to_ns` None: until the end."""

    client: ClientName
    step: StepEntry
    from_ns: int
    to_ns: int | None


def client_downs(steps: Iterable[StepEntry]) -> list[ClientDown]:
    """Return the times in which steps had clients down, in the order of their beginnings.

    What did not happen then says nothing of the brokers.
    """
    found: dict[ClientName, list[ClientDown]] = {}
    for step in steps:
        if not step.is_a(ClientStep) or step.asked.client is None or step.fired_ns is None:
            continue
        try:
            client = ClientName(step.asked.client)
        except UsageError:
            continue  # in a damaged record
        of_client = found.setdefault(client, [])
        if not step.is_a(StartClientStep):
            of_client.append(ClientDown(client, step, step.fired_ns, None))
        elif of_client and step.effect_ns is not None:
            of_client[-1] = of_client[-1]._replace(to_ns=step.effect_ns)
    return sorted((one for some in found.values() for one in some), key=lambda one: one.from_ns)


def end_of_fault(step: StepEntry) -> int | None:
    """Return when a step has no effect any more, in ns; None: never, or at no known time.

    A step that nothing heals ends with its effect.
    """
    kind = KINDS.get(step.step)
    return step.effect_ns if kind is not None and kind.healed_by is None else step.healed_ns


def nodes_with_changed_directories(record: Record) -> set[int]:
    """Return the nodes with a log directory that a step replaced or took offline; a power loss does neither."""
    changes = {kind for kind, one in KINDS.items() if one.changes_directory}
    return {node for step in record.proven_steps or () if step.step in changes for node in step.nodes}


def step_on_disks_of(
    record: Record, nodes: Collection[int], until_ns: int | None = None, kinds: Collection[str] = TOUCHES
) -> StepEntry | None:
    """Return the first step of these kinds on these nodes up to some time; None: there was none."""
    for step in record.proven_steps or ():
        if step.step not in kinds or step.fired_ns is None or {*nodes}.isdisjoint(step.nodes):
            continue
        if until_ns is None or step.fired_ns <= until_ns:
            return step
    return None


class MeasuredLoss(NamedTuple):
    """A power loss left the log of a broker's replica with the end `after`. It had ended at `before`."""

    step: StepEntry
    broker: int
    topic: str
    partition: int
    before: int
    after: int


def measured_power_losses(record: Record) -> Iterator[MeasuredLoss]:
    """Yield each log that a step measured right before and right after a power loss, in the order of the steps.

    Only the kernel's own method counts (`fs-shutdown`): it takes exactly what was not fsynced.
    """
    for step in record.proven_steps or ():
        for broker in step.nodes if step.is_a(PowerLossStep) and step.effect_ns is not None else ():
            proof = step.figures(PowerLossStep.Proof).of(broker)
            logs = proof.logs or {} if proof.method == "fs-shutdown" else {}
            for topic, partition in record.timeline.partitions:
                log = logs.get(f"{topic}-{partition}")
                if log is not None and log.leo_before is not None and log.leo_after is not None:
                    yield MeasuredLoss(step, broker, topic, partition, log.leo_before, log.leo_after)


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
