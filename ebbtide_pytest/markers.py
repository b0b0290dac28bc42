"""The plugin's markers: what each says, and what is wrong with one that says something else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

LINES = (
    "scenario(name_or_path, kafka=None): run a scenario before the test; the test fails unless it ends as predicted",
    "kafka(*versions, versions=()): run the test on each of these Kafka releases",
    "needs(*things): skip the test where this host lacks one: root, docker, or a check of `ebbtide doctor` by its name",
    "expected_violation(*causes): the run must lose records by one of these causes, or violate one of these "
    "properties, and do nothing else that is wrong",
    "chaos(**scenario): cluster, topics, producers, consumers, settle_s of the `chaos` fixture, as in a scenario file",
)


class WrongMarker(Exception):
    """A marker that cannot be understood; the message says which and how to write it."""


@dataclass(frozen=True, kw_only=True)
class ScenarioWish:
    """What `@pytest.mark.scenario` names."""

    name: str
    kafka: tuple[str, ...]


def scenario_of(node: pytest.Item | pytest.Function) -> ScenarioWish | None:
    """The scenario that runs before the test, if any. Raises `WrongMarker`."""
    mark = node.get_closest_marker("scenario")
    return None if mark is None else scenario_in(mark)


def scenario_in(mark: pytest.Mark) -> ScenarioWish:
    """What the marker says. Raises `WrongMarker`."""
    if len(mark.args) != 1 or not isinstance(mark.args[0], str) or mark.kwargs.keys() - {"kafka"}:
        raise WrongMarker('scenario takes one scenario: @pytest.mark.scenario("last-replica-standing", kafka="4.3.1")')
    return ScenarioWish(name=mark.args[0], kafka=_words("scenario", mark.kwargs.get("kafka") or ()))


def releases_in(mark: pytest.Mark) -> tuple[str, ...]:
    """The releases of `@pytest.mark.kafka`. Raises `WrongMarker`."""
    found = _words("kafka", (*mark.args, *_words("kafka", mark.kwargs.get("versions", ()))))
    if not found or mark.kwargs.keys() - {"versions"}:
        raise WrongMarker('kafka takes releases: @pytest.mark.kafka(versions=["3.9.1", "4.3.1"])')
    return found


def needs_of(item: pytest.Item) -> list[str]:
    """Everything that the test needs of its host. Raises `WrongMarker`."""
    found: list[str] = []
    for mark in item.iter_markers("needs"):
        if not mark.args or mark.kwargs:
            raise WrongMarker('needs takes names: @pytest.mark.needs("docker", "root")')
        found += _words("needs", mark.args)
    return list(dict.fromkeys(found))


def expected_of(item: pytest.Item) -> tuple[str, ...] | None:
    """Causes and properties that the test wants to see; None: nothing wrong is expected. Raises `WrongMarker`."""
    mark = item.get_closest_marker("expected_violation")
    if mark is None:
        return None
    expected = _words("expected_violation", mark.args)
    if not expected or mark.kwargs:
        raise WrongMarker('expected_violation takes causes: @pytest.mark.expected_violation("last-replica-standing")')
    return expected


def chaos_of(item: pytest.Item) -> Mapping[str, Any]:
    """The parts of a scenario that the test's chaos fixture is made of. Raises `WrongMarker`."""
    mark = item.get_closest_marker("chaos")
    allowed = ["cluster", "topics", "producers", "consumers", "settle_s"]
    if mark is None:
        return {}
    wrong = [*map(repr, mark.args), *(key for key in mark.kwargs if key not in allowed)]
    if wrong:
        from harness.scenario.check import suggestion

        told = ", ".join(one + suggestion(one, allowed) for one in wrong)
        raise WrongMarker(f"chaos takes the keys {', '.join(allowed)}, as in a scenario file, not {told}")
    return mark.kwargs


def _words(marker: str, given: str | Iterable[Any]) -> tuple[str, ...]:
    words = (given,) if isinstance(given, str) else tuple(given)
    for word in words:
        if not isinstance(word, str):
            raise WrongMarker(f"{marker} takes names in quotes, not {word!r}")
    return tuple(dict.fromkeys(words))
