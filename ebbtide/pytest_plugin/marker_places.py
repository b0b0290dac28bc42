"""Finds where a marker stands: its file, its line, and the lines of the keys in it."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

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
    calls = [] if node is None else [call for call in _calls_at(tree, node, place.line) if _calls_marker(call, name)]
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


def _calls_marker(call: ast.Call, name: str) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == name


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
