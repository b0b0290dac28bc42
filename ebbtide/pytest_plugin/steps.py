"""Steps as Python calls: `power_loss(leader("t-0"))`, `partition([...], [...])`, `set_config(resource=..., ...)`."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, get_args

if TYPE_CHECKING:
    from ebbtide.scenario.model import StepSpec

_BY_GROUPS = frozenset({"partition", "flap"})
_BY_PARTITION = frozenset({"reassign", "elect"})


def kind_of(method: str) -> str | None:
    """The kind of step that a method stands for; None: there is none. `power_loss` is `power-loss`."""
    from ebbtide.scenario.steps.table import StepKind

    kind = method.replace("_", "-")
    return kind if kind in get_args(StepKind) else None


def nearest(method: str) -> str:
    """` Did you mean 'power_loss'?` for the nearest kind of step, or nothing."""
    from ebbtide.scenario.steps.table import StepKind

    methods = [kind.replace("-", "_") for kind in get_args(StepKind)]
    near = difflib.get_close_matches(method, methods, n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def step_of(kind: str, values: tuple[Any, ...], keys: Mapping[str, Any]) -> StepSpec:
    """The step of a call. `values` are its target, the partition of an election or reassignment, the groups of a cut.

    `keys` are those of a scenario file, `from_` for `from`. Raises `Problems` with everything that does not fit.
    """
    from ebbtide.errors import Problems, UsageError
    from ebbtide.scenario.check import check
    from ebbtide.scenario.model import StepSpec
    from ebbtide.scenario.plain import from_plain

    __tracebackhide__ = True
    raw: dict[str, Any] = {"step": kind}
    if values and kind in _BY_GROUPS:
        raw["groups"] = [[group] if isinstance(group, str) else group for group in values]
    elif len(values) > 1:
        raise UsageError(f"{kind} takes one target", got=", ".join(map(repr, values)), allowed="the rest by keyword")
    elif values:
        raw["partition" if kind in _BY_PARTITION else "target"] = values[0]
    raw |= {("from" if key == "from_" else key): value for key, value in keys.items()}
    checked = check(_as_toml(raw), StepSpec)
    if checked.problems:
        raise Problems(f"the step {kind}", [*checked.problems])
    return from_plain(checked.value, StepSpec)


def _as_toml(value: Any) -> Any:
    """Tuples as lists, as a scenario file has them."""
    if isinstance(value, dict):
        return {key: _as_toml(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_as_toml(one) for one in value]
    return value
