"""Reads the plugin's markers, and explains mistakes in them.

Finds where a marker stands: its file, its line, and the lines of the keys in it.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ebbtide.pytest_plugin.judgement import allowed_expectations
from ebbtide.pytest_plugin.settings import rule_files, wrong_release
from ebbtide.suggestions import bracketed_suggestion

if TYPE_CHECKING:
    import pytest

MARKER_LINES = (
    "scenario(name_or_path, kafka=None): run a scenario before the test; the test fails unless it ends as predicted",
    "kafka(*versions, versions=()): run the test on each of these Kafka releases",
    "needs(*things): skip the test if this host lacks one of them: root, docker, or a check of `ebbtide doctor`",
    "expected_violation(*causes): the run must lose records by one of these causes, or violate one of these "
    "properties, and show nothing else that is wrong",
    "chaos(publish=False, **scenario): cluster, topics, producers, consumers and settle_s of `chaos`, as in a scenario "
    "file; publish=True lets clients of the test's own in by ports of this host, 'tls' with TLS, and judges them",
)

_INSTEAD_OF_KEYS = {
    "kafka": "@pytest.mark.kafka(...) names the releases",
    "steps": "the test calls them, as in chaos.kill(...)",
    "predictions": "@pytest.mark.expected_violation(...) says what the run may show",
}
"""Keys of a scenario file that a chaos marker does not have, and what does their work."""


class WrongMarker(Exception):
    """A mistake in the marker `name`; the message says the right form."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name

    def in_file_of(self, item: pytest.Item) -> str:
        """Return the message with the file of the test and the line of its marker."""

        return f"{self}\n  where:   {place_of_marker(item, self.name)}"


@dataclass(frozen=True, kw_only=True)
class MarkedScenario:
    """The scenario and the releases of `@pytest.mark.scenario`."""

    name: str
    kafka: tuple[str, ...]


def scenario_of(node: pytest.Item | pytest.Function) -> MarkedScenario | None:
    """Return the scenario that runs before the test, if any. Raises `WrongMarker`."""
    mark = node.get_closest_marker("scenario")
    return None if mark is None else scenario_in(mark)


def scenario_in(mark: pytest.Mark) -> MarkedScenario:
    """Return the scenario of this marker. Raises `WrongMarker`."""
    unknown = _unknown_keywords(mark, ["kafka"])
    if unknown or len(mark.args) != 1 or not isinstance(mark.args[0], str):
        raise _wrong_marker(mark, "one scenario", '"last-replica-standing", kafka="4.3.1"', unknown)
    return MarkedScenario(name=mark.args[0], kafka=_releases(mark, mark.kwargs.get("kafka") or ()))


def releases_in(mark: pytest.Mark) -> tuple[str, ...]:
    """Return the releases of `@pytest.mark.kafka`. Raises `WrongMarker`."""
    unknown = _unknown_keywords(mark, ["versions"])
    found = _releases(mark, (*mark.args, *_quoted_names(mark, mark.kwargs.get("versions", ()))))
    if not found or unknown:
        raise _wrong_marker(mark, "releases", 'versions=["3.9.1", "4.3.1"]', unknown)
    return found


def needs_of(item: pytest.Item) -> list[str]:
    """Return everything that the test needs from its host. Raises `WrongMarker`."""
    found: list[str] = []
    for mark in item.iter_markers("needs"):
        if not mark.args or mark.kwargs:
            raise _wrong_marker(mark, "names", '"docker", "root"', mark.kwargs)
        found += _quoted_names(mark, mark.args)
    return list(dict.fromkeys(found))


def expected_of(item: pytest.Item) -> tuple[str, ...] | None:
    """Return the violations that the test expects; None if it expects none.

    Raises `WrongMarker`.
    """
    mark = item.get_closest_marker("expected_violation")
    if mark is None:
        return None
    expected = _quoted_names(mark, mark.args)
    if not expected or mark.kwargs:
        raise _wrong_marker(mark, "causes", '"last-replica-standing"', mark.kwargs)
    causes, others = allowed_expectations()
    own = [path.stem.replace("_", "-") for path in rule_files(item.config)]
    known = [*causes, *others, *own]
    if unknown := [repr(word) + bracketed_suggestion(word, known) for word in expected if word not in known]:
        lines = [f"expected_violation does not know {one}" for one in unknown]
        allowed = (
            f"  allowed: the causes {', '.join(causes)}, the properties of docs/clauses.md, the coverage facts of "
        )
        allowed += "docs/coverage-facts.md, the kinds of anomaly of docs/causes.md, and the rules of --ebbtide-rule"
        raise WrongMarker(mark.name, "\n".join([*lines, allowed]))
    return expected


def chaos_of(item: pytest.Item) -> tuple[Mapping[str, object], bool | str]:
    """Return the parts of a scenario for the test's chaos fixture, and whether it publishes ports, or "tls".

    Raises `WrongMarker`.
    """
    mark = item.get_closest_marker("chaos")
    allowed = ["cluster", "topics", "producers", "consumers", "settle_s", "publish"]
    if mark is None:
        return {}, False
    if wrong := [*map(repr, mark.args), *_unknown_keywords(mark, allowed)]:
        instead = "".join(f"\n  {key}: {how}" for key, how in _INSTEAD_OF_KEYS.items() if key in mark.kwargs)
        lines = [f"chaos does not take {one}" for one in wrong]
        allowed_line = f"  allowed: the keys {', '.join(allowed)}, as in a scenario file{instead}"
        raise WrongMarker(mark.name, "\n".join([*lines, allowed_line]))
    publish = mark.kwargs.get("publish", False)
    if not isinstance(publish, bool) and publish != "tls":
        raise WrongMarker(mark.name, f"publish is True, False or 'tls', not {publish!r}: the ports are any free ones")
    return {key: part for key, part in mark.kwargs.items() if key != "publish"}, publish


def refuse_unused_chaos(item: pytest.Item) -> None:
    """Raise `WrongMarker` for a test whose own chaos marker has keys, but which used no cluster.

    A class or a module may mark tests without the fixture, and a marker without keys may only select tests.
    """
    mark = next((mark for mark in item.own_markers if mark.name == "chaos"), None)
    if mark is None or not mark.kwargs:
        return
    raise WrongMarker(
        mark.name, "the chaos marker describes a cluster, but the test does not use the fixture: def test_it(chaos)"
    )


def describe_misspelt_markers(item: pytest.Item) -> str:
    """Return a line for each marker of the test that resembles one of the plugin's."""
    ours = [line.partition("(")[0] for line in MARKER_LINES]
    others = dict.fromkeys(mark.name for mark in item.iter_markers() if mark.name not in ours)
    return "".join(
        f"\n  the test has @pytest.mark.{one}{near}" for one in others if (near := bracketed_suggestion(one, ours))
    )


def _releases(mark: pytest.Mark, value: Any) -> tuple[str, ...]:
    found = _quoted_names(mark, value)
    if wrong := [f"@pytest.mark.{mark.name}: {why}" for one in found if (why := wrong_release(one)) is not None]:
        raise WrongMarker(mark.name, "\n".join(wrong))
    return found


def _quoted_names(mark: pytest.Mark, value: Any) -> tuple[str, ...]:
    words = tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else (value,)
    for word in words:
        if not isinstance(word, str):
            raise WrongMarker(mark.name, f"{mark.name} takes names in quotes, not {word!r}")
    return tuple(dict.fromkeys(words))


def _unknown_keywords(mark: pytest.Mark, allowed: Sequence[str]) -> list[str]:
    """Return the keywords that the marker does not have, each with a suggestion.

    The suggestion is the most similar keyword.
    """
    return [key + bracketed_suggestion(key, allowed) for key in mark.kwargs if key not in allowed]


def _wrong_marker(mark: pytest.Mark, takes: str, example: str, unknown: Iterable[str]) -> WrongMarker:
    got = ", ".join([*map(repr, mark.args), *unknown]) or "nothing"
    return WrongMarker(
        mark.name, f"{mark.name} takes {takes}, as in @pytest.mark.{mark.name}({example})\n  got:     {got}"
    )


if TYPE_CHECKING:
    from _pytest.nodes import Node


@dataclass(frozen=True, kw_only=True)
class MarkerPlace:
    """Where the marker `name` stands, or the test that has it if the marker itself was not found.

    `file` is empty if the marker is of no test.
    """

    name: str
    file: str = ""
    line: int = 0
    call: ast.Call | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def label(self) -> str:
        """The heading of errors in the marker: its place, and its name."""
        marker = f"@pytest.mark.{self.name}"
        return f"{self}: {marker}" if self.file else marker

    def line_of(self, where: str) -> int | None:
        """Return the line of the value at a path such as `producers[0].acks`, or of the part that lacks it.

        None if the marker was not found, or has no such keyword.
        """
        for keyword in () if self.call is None else self.call.keywords:
            if keyword.arg is not None and (rest := _rest_after(keyword.arg, where)) is not None:
                return _line_within(keyword.value, rest)
        return None


UNPLACED_CHAOS = MarkerPlace(name="chaos")


def place_of_marker(item: pytest.Item, name: str) -> MarkerPlace:
    """Return the place of the test's marker of that name, which is on the test, its class or its module."""
    path, number, _ = item.reportinfo()
    file = os.path.relpath(path, item.config.invocation_params.dir)
    place = MarkerPlace(name=name, file=file, line=(number or 0) + 1)
    node = next((node for node, _ in item.iter_markers_with_node(name)), None)
    try:
        tree = ast.parse(Path(path).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return place
    # Two markers of one name, or one that a variable holds, are not told apart: then it is the place of the test.
    found = [] if node is None else _calls_at(tree, node, place.line)
    calls = [call for call in found if isinstance(call.func, ast.Attribute) and call.func.attr == name]
    return MarkerPlace(name=name, file=file, line=calls[0].lineno, call=calls[0]) if len(calls) == 1 else place


def _calls_at(tree: ast.Module, node: Node, line: int) -> Iterator[ast.Call]:
    """Yield the calls in the decorators of a test or a class, and in the `pytestmark` of a class or a module."""
    found: list[ast.expr] = list(_marks_of(tree)) if isinstance(node, pytest.Module) else []
    for one in ast.walk(tree):
        match one:
            case ast.FunctionDef(decorator_list=decorators) | ast.AsyncFunctionDef(decorator_list=decorators):
                # The line of a test is that of its first decorator.
                if isinstance(node, pytest.Item) and line in {one.lineno, *(each.lineno for each in decorators)}:
                    found += decorators
            case ast.ClassDef(name=name) if isinstance(node, pytest.Class) and name == node.name:
                found += [*one.decorator_list, *_marks_of(one)]
    for each in found:
        yield from (call for call in ast.walk(each) if isinstance(call, ast.Call))


def _marks_of(body: ast.Module | ast.ClassDef) -> Iterator[ast.expr]:
    for one in body.body:
        match one:
            case ast.Assign(targets=[ast.Name(id="pytestmark")], value=value):
                yield value


def _rest_after(key: str, where: str) -> str | None:
    """Return what follows a key at the beginning of a path; None if the path does not begin with it."""
    rest = where.removeprefix(key)
    return rest.removeprefix(".") if where.startswith(key) and (not rest or rest[0] in ".[") else None


def _line_within(value: ast.expr, where: str) -> int:
    """Return the line of the last value on a path that is written out in the marker."""
    match value:
        case ast.Dict(keys=keys, values=values):
            for key, inner in zip(keys, values, strict=True):
                if isinstance(key, ast.Constant) and (rest := _rest_after(str(key.value), where)) is not None:
                    return _line_within(inner, rest)
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            for index, inner in enumerate(elements):
                if (rest := _rest_after(f"[{index}]", where)) is not None:
                    return _line_within(inner, rest)
    return value.lineno
