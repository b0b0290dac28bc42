"""Steps and triggers for tests, said as a scenario file says them."""

from __future__ import annotations

from typing import Any

from ebbtide.scenario.plain_values import from_plain, to_plain
from ebbtide.scenario.steps.step import StepSpec
from ebbtide.scenario.triggers import Trigger


def step_of(kind: str, **keys: Any) -> StepSpec:
    """The step of this kind with these keys; `from_` for `from`."""
    named = {"from" if key == "from_" else key: value for key, value in keys.items()}
    return from_plain(to_plain({"step": kind, **{key: _set(value) for key, value in named.items()}}), StepSpec)


def trigger_of(**keys: Any) -> Trigger:
    """The trigger of one key: `trigger_of(acked=5)`."""
    return from_plain(to_plain(keys), Trigger)


def _set(value: Any) -> Any:
    """A trigger by its one key."""
    if isinstance(value, Trigger):
        return {key: one for key, one in to_plain(value).items() if one is not None}
    return value
