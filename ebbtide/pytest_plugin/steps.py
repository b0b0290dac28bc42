"""Turns Python calls into steps and topics.

Examples of steps are `power_loss(leader("t-0"))` and `partition([...], [...])`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ebbtide.suggestions import allowed_words, bracketed_suggestion, nearest_words

if TYPE_CHECKING:
    from ebbtide.scenario.model import TopicSpec
    from ebbtide.scenario.steps.step import StepSpec

_BY_GROUPS = frozenset({"partition", "flap"})


def kind_of(method: str) -> str | None:
    """Return the kind of step of a method (`power_loss` is `power-loss`).

    Returns None if there is none.
    """
    from ebbtide.scenario.steps.table import KINDS

    kind = method.replace("_", "-")
    return kind if kind in KINDS else None


def did_you_mean_step(method: str) -> str:
    """Return ` Did you mean 'power_loss'?` for the most similar step, or what comes closest, else ""."""
    from ebbtide.scenario.absent_words import absent_word
    from ebbtide.scenario.steps.table import KINDS

    if (sentence := absent_word(method, "step")) is not None:
        return f" {sentence}"
    methods = [kind.replace("-", "_") for kind in KINDS]
    near = nearest_words(method, methods, most=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def step_of(kind: str, values: tuple[Any, ...], keys: Mapping[str, object]) -> StepSpec:
    """Return the step of a call.

    `values` are the target, or the partition of an election or reassignment, or the groups of a partition. `keys` are
    the keys of a scenario file, with `from_` for `from`. Raises `Problems` with every mistake.
    """
    from ebbtide.errors import Problems, UsageError
    from ebbtide.scenario.absent_words import hint_on_kind
    from ebbtide.scenario.mismatches import mismatches
    from ebbtide.scenario.plain_values import from_plain
    from ebbtide.scenario.steps.step import StepSpec
    from ebbtide.scenario.steps.table import KINDS, help_of_kind, keys_of

    __tracebackhide__ = True
    if kind not in KINDS:
        allowed = allowed_words(kind, list(KINDS))
        what = f"unknown kind of step{hint_on_kind(kind, KINDS)}"
        raise UsageError(what, got=repr(kind), allowed=allowed, next=help_of_kind(kind))
    raw: dict[str, object] = {"step": kind}
    if values and kind in _BY_GROUPS:
        raw["groups"] = [[group] if isinstance(group, str) else group for group in values]
    elif values:
        keys_here = [key for part in keys_of(kind) for key in part]
        key = KINDS[kind].first
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


def topic_of(topic: str, settings: Mapping[str, object], config: Mapping[str, object]) -> TopicSpec:
    """Return the topic of a call of `create_topic`.

    `settings` are its own keywords. `config` are all others: names of Kafka, with underscores instead of dots. Raises
    `Problems` with every mistake.
    """
    from ebbtide.errors import Problems, UsageError
    from ebbtide.scenario.mismatches import mismatches
    from ebbtide.scenario.model import TopicSpec
    from ebbtide.scenario.plain_values import from_plain

    __tracebackhide__ = True
    problems = mismatches(as_toml(settings), TopicSpec)
    for key, value in config.items():
        # retention_ms also resembles partitions, so only names of as many words are compared.
        if meant := bracketed_suggestion(key, [one for one in settings if one.count("_") == key.count("_")]):
            allowed = f"{', '.join(settings)}, and topic configs of Kafka{meant}"
            problems.append(UsageError("unknown setting of a topic", where=key, got=repr(value), allowed=allowed))
            continue
        for one in mismatches({"config": {key: as_toml(value)}}, TopicSpec):
            problems.append(UsageError(one.what, where=key, got=one.got, allowed=one.allowed))
    if problems:
        raise Problems(f"the topic {topic}", [*problems])
    names = {key.replace("_", "."): value for key, value in config.items()}
    return from_plain(as_toml({**settings, "config": names}), TopicSpec)


def as_toml(value: Any) -> Any:
    """Return a value of Python as a scenario file would have it: tuples are lists, and every key is a text."""
    if isinstance(value, Mapping):
        return {str(key): as_toml(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_toml(item) for item in value]
    return value
