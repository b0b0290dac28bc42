"""What the types of wire steps cannot say: APIs that Kafka knows, durations, and holds that a trigger can wait for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ebbtide.errors import UsageError
from ebbtide.scenario.api_keys import API_KEYS
from ebbtide.scenario.check import suggestion
from ebbtide.scenario.model import HeldTrigger, StepSpec
from ebbtide.scenario.steps.table import KINDS


def wire_step(step: StepSpec, where: str) -> Iterator[UsageError]:
    """An API that Kafka does not have."""
    if step.api is not None:
        yield from _api(step.api, f"{where}.api")


def held_trigger(held: HeldTrigger, earlier: Iterable[StepSpec], where: str) -> Iterator[UsageError]:
    """A wait for requests that no earlier step holds or delays."""
    yield from _api(held.api, f"{where}.api")
    if held.at_least < 1:
        yield UsageError("out of range", where=f"{where}.at_least", got=str(held.at_least), allowed="1 or more")
    if held.api in API_KEYS and not any(KINDS[step.step].stops_requests and step.api == held.api for step in earlier):
        yield UsageError(
            "can never fire: no earlier step holds such requests",
            where=f"{where}.api",
            got=repr(held.api),
            allowed=f"after a hold-request or delay-request of {held.api}",
        )


def _api(name: str, where: str) -> Iterator[UsageError]:
    if name not in API_KEYS:
        allowed = "a Kafka API, e.g. AlterPartition, Fetch, Produce" + suggestion(name, list(API_KEYS))
        yield UsageError("unknown API", where=where, got=repr(name), allowed=allowed)
