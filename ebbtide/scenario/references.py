"""What keys of a scenario file refer to: topics, partitions, roles, config resources; and ranges of numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ebbtide.errors import UsageError
from ebbtide.scenario.admin_meaning import broker_config, resource_form
from ebbtide.scenario.check import suggestion
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.roles import PARTITION_ROLES, parse_role
from ebbtide.scenario.words import whole_number

MAX_BROKERS = 6
"""As many as a small machine carries, at some 300 MB each, and enough for RF 6 with min ISR 4. The specification's
explorer, which starts no process, takes one more."""

Wrong = Callable[[str], bool]
"""Whether the value at a path is a stand-in for one that does not fit, so that nothing may be said from it."""


def nothing_wrong(_path: str) -> bool:
    """For what was not read from a file, and fits its types."""
    return False


def limit(where: str, got: float, low: float, high: float | None = None) -> Iterator[UsageError]:
    """A number out of its range, both ends allowed."""
    if got < low or (high is not None and got > high):
        allowed = f"{_plain(low)} or more" if high is None else f"{_plain(low)} to {_plain(high)}"
        yield UsageError("out of range", where=where, got=_plain(got), allowed=allowed)


def _plain(number: float) -> str:
    """As a person types it: 1048000, not 1.048e+06."""
    return str(number) if isinstance(number, int) else f"{number:.15g}"


def put_at(where: str, check: Callable[[], object]) -> Iterator[UsageError]:
    """Run a parser and put its complaint at `where`."""
    try:
        check()
    except UsageError as error:
        yield UsageError(error.what, where=where, got=error.got, allowed=error.allowed)


def brokers_of(scenario: Scenario, wrong: Wrong) -> int:
    """How many brokers there can be, as far as the file says."""
    return MAX_BROKERS if wrong("cluster.brokers") else scenario.cluster.brokers


def topic_exists(scenario: Scenario, name: str, where: str, wrong: Wrong) -> Iterator[UsageError]:
    """A topic that the scenario does not have."""
    if scenario.topics and not wrong("topics") and name not in scenario.topics:
        names = sorted(scenario.topics)
        yield UsageError(
            "unknown topic", where=where, got=repr(name), allowed=", ".join(names) + suggestion(name, names)
        )


def partition_known(scenario: Scenario, text: str, where: str, wrong: Wrong) -> Iterator[UsageError]:
    """A partition, as in t-0, that no topic of the scenario has."""
    topic, _, number = text.rpartition("-")
    known = scenario.topics.get(topic)
    if not scenario.topics or wrong("topics"):
        return
    index = whole_number(number)
    if known is not None and index is not None and (known.partitions < 1 or wrong(f"topics.{topic}.partitions")):
        return
    if known is None or index is None or index >= known.partitions:
        names = [f"{name}-{index}" for name, spec in scenario.topics.items() for index in range(spec.partitions)]
        shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        yield UsageError("unknown partition", where=where, got=repr(text), allowed=shown + suggestion(text, names))


def role_known(
    scenario: Scenario, text: str, where: str, names: set[str], wrong: Wrong, *, clients: bool
) -> Iterator[UsageError]:
    """A role that is none, or whose partition, broker or step there is not; `clients`: whether they may be meant."""
    try:
        role = parse_role(text)
    except UsageError as error:
        yield UsageError(error.what, where=where, got=error.got, allowed=error.allowed)
        return
    if role.kind in PARTITION_ROLES:
        yield from partition_known(scenario, str(role.argument), where, wrong)
    elif role.kind == "broker":
        yield from limit(where, int(str(role.argument)), 1, brokers_of(scenario, wrong))
    elif role.kind == "step" and role.argument not in names:
        if any(wrong(f"steps[{index}].name") for index in range(len(scenario.steps))):
            return
        allowed = ", ".join(sorted(names)) or "none: no earlier step has a name"
        yield UsageError("no earlier step of that name", where=where, got=repr(role.argument), allowed=allowed)
    elif role.kind == "clients" and not clients:
        yield UsageError("clients cannot be a target", where=where, got=repr(text), allowed="a role of brokers")


def resource_known(scenario: Scenario, text: str, where: str, names: set[str], wrong: Wrong) -> Iterator[UsageError]:
    """A config resource that is none, or of a topic or role that there is not."""
    yield from resource_form(text, where)
    kind, _, rest = text.partition(":")
    if kind == "topic":
        yield from topic_exists(scenario, rest, where, wrong)
    elif kind == "broker" and rest:
        yield from role_known(scenario, rest, where, names, wrong, clients=False)
        yield from broker_config(rest, where)
