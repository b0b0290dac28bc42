"""Turns Python calls into steps.

Examples are `power_loss(leader("t-0"))` and `partition([...], [...])`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ebbtide.suggestions import allowed_words, nearest_words

if TYPE_CHECKING:
    from ebbtide.scenario.steps.step import StepSpec

_BY_GROUPS = frozenset({"partition", "flap"})
_BY_PARTITION = frozenset({"reassign", "elect", "recover"})


def kind_of(method: str) -> str | None:
    """Return the kind of step of a method (`power_loss` is `power-loss`).

    Returns None if there is none.
    """
    from ebbtide.scenario.steps.table import KINDS

    kind = method.replace("_", "-")
    return kind if kind in KINDS else None


def did_you_mean_step(method: str) -> str:
    """Return ` Did you mean 'power_loss'?` for the most similar step, else ""."""
    from ebbtide.scenario.steps.table import KINDS

    methods = [kind.replace("-", "_") for kind in KINDS]
    near = nearest_words(method, methods, most=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def step_of(kind: str, values: tuple[Any, ...], keys: Mapping[str, Any]) -> StepSpec:
    """Return the step of a call.

    `values` are the target, or the partition of an election or reassignment, or the groups of a partition. `keys` are
    the keys of a scenario file, with `from_` for `from`. Raises `Problems` with every mistake.
    """
    from ebbtide.errors import Problems, UsageError
    from ebbtide.scenario.mismatches import mismatches
    from ebbtide.scenario.plain_values import from_plain
    from ebbtide.scenario.steps.keys import keys_of
    from ebbtide.scenario.steps.step import StepSpec
    from ebbtide.scenario.steps.table import KINDS, help_of_kind

    __tracebackhide__ = True
    if kind not in KINDS:
        allowed = allowed_words(kind, list(KINDS))
        raise UsageError("unknown kind of step", got=repr(kind), allowed=allowed, next=help_of_kind(kind))
    raw: dict[str, Any] = {"step": kind}
    if values and kind in _BY_GROUPS:
        raw["groups"] = [[group] if isinstance(group, str) else group for group in values]
    elif values:
        keys_here = [key for part in keys_of(kind) for key in part]
        key = "partition" if kind in _BY_PARTITION else "target"
        if key not in keys_here or len(values) > 1:
            by_keyword = [name for name in keys_here if name != key]
            what = f"{kind} takes one {key}" if key in keys_here else f"{kind} takes its values by keyword"
            raise UsageError(
                what,
                got=", ".join(map(repr, values)),
                allowed=f"by keyword: {', '.join(by_keyword)}",
                next=help_of_kind(kind),
            )
        raw[key] = values[0]
    raw |= {("from" if key == "from_" else key): value for key, value in keys.items()}
    raw = as_toml(raw)
    problems = mismatches(raw, StepSpec)
    if problems:
        raise Problems(f"the step {kind}", [*problems], next=help_of_kind(kind))
    return from_plain(raw, StepSpec)


def as_toml(value: Any) -> Any:
    """Return a value of Python as a scenario file would have it: tuples are lists, and every key is a text."""
    if isinstance(value, Mapping):
        return {str(key): as_toml(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_toml(item) for item in value]
    return value
