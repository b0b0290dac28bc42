"""Finds, in one pass, in which histories each mutant's expression has another value than the original.

A mutant can be noticed only there. So the others need not be judged with it, and a mutant without any such history
survives without being run. The mutated expressions are evaluated beside the original ones, which the code goes on with.
"""

from __future__ import annotations

import ast
import copy
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")
_NAME = "_compared"


class Infections:
    """The histories in which each mutant, by its name, has another value; at most `most` of them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._found: dict[str, set[int]] = defaultdict(set)
        self.history = 0
        """Which history is judged now."""

    def of(self, mutant: str) -> list[int]:
        """Return the histories in which a mutant has another value."""
        return sorted(self._found[mutant])

    def compared(self, names: Sequence[str], original: Callable[[], T], mutated: Sequence[Callable[[], object]]) -> T:
        """Return the original value, and note which mutants have another one."""
        value = original()
        for name, other in zip(names, mutated, strict=True):
            found = self._found[name]
            if self.history not in found and len(found) < self._most and _differs(value, other):
                found.add(self.history)
        return value

    def put_into(self, tree: ast.Module, changed: Iterable[tuple[ast.AST, str, ast.AST]]) -> ast.Module:
        """Return the tree with comparisons; `changed` has nodes of it, the names of mutants, and what they make of it.

        A node is an expression, or a function whose body is another one.
        """
        of_node: dict[ast.AST, list[tuple[str, ast.AST]]] = defaultdict(list)
        for node, name, mutated in changed:
            of_node[node].append((name, mutated))
        _Comparing(of_node).visit(tree)
        return ast.fix_missing_locations(tree)


def _differs(value: Any, other: Callable[[], object]) -> bool:
    try:
        found: Any = other()
        return not np.array_equal(found, value) if isinstance(found, np.ndarray) else bool(found != value)
    except Exception:
        # What throws is not equal, either.
        return True


class _Comparing(ast.NodeTransformer):
    def __init__(self, of_node: dict[ast.AST, list[tuple[str, ast.AST]]]) -> None:
        self._of_node = of_node

    def visit(self, node: ast.AST) -> ast.AST:
        mutants = self._of_node.get(node, [])
        found = self.generic_visit(node)
        if not mutants:
            return found
        names = [name for name, _ in mutants]
        if isinstance(found, ast.FunctionDef):
            # A function that does nothing returns its first argument.
            first = ast.Name(found.args.args[0].arg, ast.Load())
            others = [one if isinstance(one, ast.expr) else first for _, one in mutants]
            for inner in [one for one in ast.walk(found) if isinstance(one, ast.Return)]:
                assert inner.value is not None
                inner.value = _call(names, inner.value, others)
            return found
        assert isinstance(found, ast.expr)
        return _call(names, found, [one for _, one in mutants if isinstance(one, ast.expr)])


def _call(names: Sequence[str], original: ast.expr, mutated: Sequence[ast.expr]) -> ast.Call:
    texts: list[ast.expr] = [ast.Constant(name) for name in names]
    others: list[ast.expr] = [_lambda(copy.deepcopy(one)) for one in mutated]
    function = ast.Name(_NAME, ast.Load())
    return ast.Call(function, [ast.List(texts, ast.Load()), _lambda(original), ast.List(others, ast.Load())], [])


def _lambda(body: ast.expr) -> ast.Lambda:
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.Lambda(nothing, body)
