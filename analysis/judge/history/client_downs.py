"""Says when steps had taken a producer or consumer down: what did not happen then says nothing of the brokers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ebbtide.errors import UsageError
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.steps.clients import ClientName, ClientStep, StartClientStep


class ClientDown(NamedTuple):
    """A client that `step` took down; `to_ns` None: until the end."""

    client: ClientName
    step: StepEntry
    from_ns: int
    to_ns: int | None


def client_downs(steps: Iterable[StepEntry]) -> list[ClientDown]:
    """Return the times in which steps had clients down, in the order of their beginnings."""
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
