"""The plugin's markers: what each says, and what is wrong with one that says something else."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ebbtide.pytest_plugin.judgement import expectable
from ebbtide.pytest_plugin.settings import no_release

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
    strange = _strange(mark, ["kafka"])
    if strange or len(mark.args) != 1 or not isinstance(mark.args[0], str):
        raise _wrong(mark, "one scenario", '"last-replica-standing", kafka="4.3.1"', strange)
    return ScenarioWish(name=mark.args[0], kafka=_releases(mark, mark.kwargs.get("kafka") or ()))


def releases_in(mark: pytest.Mark) -> tuple[str, ...]:
    """The releases of `@pytest.mark.kafka`. Raises `WrongMarker`."""
    strange = _strange(mark, ["versions"])
    found = _releases(mark, (*mark.args, *_words(mark, mark.kwargs.get("versions", ()))))
    if not found or strange:
        raise _wrong(mark, "releases", 'versions=["3.9.1", "4.3.1"]', strange)
    return found


def needs_of(item: pytest.Item) -> list[str]:
    """Everything that the test needs of its host. Raises `WrongMarker`."""
    found: list[str] = []
    for mark in item.iter_markers("needs"):
        if not mark.args or mark.kwargs:
            raise _wrong(mark, "names", '"docker", "root"', mark.kwargs)
        found += _words(mark, mark.args)
    return list(dict.fromkeys(found))


def expected_of(item: pytest.Item) -> tuple[str, ...] | None:
    """What the test wants to see, of what a verdict can say; None: nothing wrong is expected. Raises `WrongMarker`."""
    mark = item.get_closest_marker("expected_violation")
    if mark is None:
        return None
    expected = _words(mark, mark.args)
    if not expected or mark.kwargs:
        raise _wrong(mark, "causes", '"last-replica-standing"', mark.kwargs)
    causes, others = expectable()
    known = [*causes, *others]
    if unknown := [repr(word) + _meant(word, known) for word in expected if word not in known]:
        raise WrongMarker(
            f"expected_violation does not know {', '.join(unknown)}; allowed: the causes {', '.join(causes)}, the "
            "properties of docs/clauses.md, the coverage facts of docs/coverage-facts.md, and the kinds of anomaly of "
            "docs/reconcile.md"
        )
    return expected


def chaos_of(item: pytest.Item) -> Mapping[str, Any]:
    """The parts of a scenario that the test's chaos fixture is made of. Raises `WrongMarker`."""
    mark = item.get_closest_marker("chaos")
    allowed = ["cluster", "topics", "producers", "consumers", "settle_s"]
    if mark is None:
        return {}
    if wrong := [*map(repr, mark.args), *_strange(mark, allowed)]:
        raise WrongMarker(f"chaos takes the keys {', '.join(allowed)}, as in a scenario file, not {', '.join(wrong)}")
    return mark.kwargs


def misspelt(item: pytest.Item) -> str:
    """A line on each marker of the test that is none of the plugin's, and nearly is."""
    ours = [line.partition("(")[0] for line in LINES]
    others = dict.fromkeys(mark.name for mark in item.iter_markers() if mark.name not in ours)
    return "".join(f"\n  the test has @pytest.mark.{one}{near}" for one in others if (near := _meant(one, ours)))


def _releases(mark: pytest.Mark, given: Any) -> tuple[str, ...]:
    found = _words(mark, given)
    if wrong := [f"@pytest.mark.{mark.name}: {why}" for one in found if (why := no_release(one)) is not None]:
        raise WrongMarker("\n".join(wrong))
    return found


def _words(mark: pytest.Mark, given: Any) -> tuple[str, ...]:
    words = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (given,)
    for word in words:
        if not isinstance(word, str):
            raise WrongMarker(f"{mark.name} takes names in quotes, not {word!r}")
    return tuple(dict.fromkeys(words))


def _strange(mark: pytest.Mark, allowed: Sequence[str]) -> list[str]:
    """The keywords that the marker does not have, each with the one that was probably meant."""
    return [key + _meant(key, allowed) for key in mark.kwargs if key not in allowed]


def _wrong(mark: pytest.Mark, takes: str, example: str, strange: Iterable[str]) -> WrongMarker:
    got = ", ".join([*map(repr, mark.args), *strange]) or "nothing"
    return WrongMarker(f"{mark.name} takes {takes}, as in @pytest.mark.{mark.name}({example}); got {got}")


def _meant(got: str, allowed: Iterable[str]) -> str:
    """As `ebbtide.scenario.check.suggestion`: markers are also read where another `harness` stands in front of it."""
    near = difflib.get_close_matches(got, allowed, n=1)
    return f" (did you mean '{near[0]}'?)" if near else ""
