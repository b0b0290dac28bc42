"""Generates the mutants of `bench.mutate_causes` and `bench.mutate_spec`: a module with one change each."""

from __future__ import annotations

import ast
import copy
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import islice
from pathlib import Path

PACKAGE = "analysis.causes"
_TYPES = ("Kind", "Condition")
"""Names of types, which nothing reads when it runs."""
_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


@dataclass(frozen=True)
class CauseMutant:
    """A module with one change: `place` is the function or table, `was` and `became` the changed expression."""

    module: str
    place: str
    was: str
    became: str
    make_tree: Callable[[], ast.Module]

    @property
    def name(self) -> str:
        """See `mutant_name`."""
        return mutant_name(self.module, self.place, self.was, self.became)

    @property
    def tree(self) -> ast.Module:
        """The module with the change. To make it takes far longer than to name the mutant."""
        return self.make_tree()


def mutants_of(
    module: str,
    package: str = PACKAGE,
    changes_of: Callable[[ast.AST, str], Iterator[tuple[str, Change]]] | None = None,
) -> Iterator[CauseMutant]:
    """Yield the mutants of a module of a package; `changes_of` says what may be changed at a node of it."""
    tree = ast.parse(path_of(module, package).read_text())
    packed = pickle.dumps(tree)  # unpacked, it is a copy in a fifth of the time of `copy.deepcopy`
    numbers = {id(node): number for number, node in enumerate(ast.walk(tree))}

    def changed(number: int, change: Change) -> ast.Module:
        mutated: ast.Module = pickle.loads(packed)
        change(next(islice(ast.walk(mutated), number, None)))
        return ast.fix_missing_locations(mutated)

    for place, node in places(tree):
        for was, change in (changes_of or changes)(node, module):
            became = change(copy.deepcopy(node))
            yield CauseMutant(module, place, was, became, partial(changed, numbers[id(node)], change))


def mutant_name(module: str, place: str, was: str, became: str) -> str:
    """Return module, place and change, which name the mutant also after other lines have moved."""
    return f"{module}.{place}: {was} -> {became}"


def path_of(module: str, package: str = PACKAGE) -> Path:
    return Path(import_module(f"{package}.{module}").__file__ or "")


def places(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Yield each node inside a function or the table, with the name of that place."""

    def walk(node: ast.AST, place: str) -> Iterator[tuple[str, ast.AST]]:
        for child in ast.iter_child_nodes(node):
            inner = place
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                inner = f"{place}.{child.name}".lstrip(".")
            elif isinstance(child, ast.Assign) and isinstance(child.targets[0], ast.Name) and not place:
                inner = child.targets[0].id if child.targets[0].id not in _TYPES else ""
            if inner:
                yield inner, child
            yield from walk(child, inner)

    yield from walk(tree, "")


def same_node(tree: ast.Module, copied: ast.Module, node: ast.AST) -> ast.AST:
    """Return the node of a copy that stands where a node of the original stands."""
    return next(other for one, other in zip(ast.walk(tree), ast.walk(copied), strict=True) if one is node)


class Change:
    """What is done to a node of a copied tree: each returns what the expression became."""

    def __init__(self, kind: str, index: int = 0) -> None:
        self._kind, self._index = kind, index

    @property
    def is_of_table(self) -> bool:
        """Whether the table is changed, which is no expression in a function."""
        return self._kind in ("element", "reason")

    def __call__(self, node: ast.AST) -> str:
        """Change the node in place."""
        found: str = getattr(self, f"_{self._kind}")(node)
        return found

    def _compare(self, node: ast.Compare) -> str:
        node.ops[0] = _COMPARED[type(node.ops[0])]()
        return ast.unparse(node)

    def _join(self, node: ast.BoolOp) -> str:
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        return ast.unparse(node)

    def _without(self, node: ast.BoolOp) -> str:
        del node.values[self._index]
        if len(node.values) == 1:
            node.values.append(copy.deepcopy(node.values[0]))
        return f"without {self._index + 1}"

    def _swap(self, node: ast.IfExp) -> str:
        node.body, node.orelse = node.orelse, node.body
        return "swapped"

    def _never(self, node: ast.If) -> str:
        node.test = ast.Constant(False)
        return "never"

    def _plain(self, node: ast.FunctionDef) -> str:
        node.body = [ast.Return(ast.Name(node.args.args[0].arg, ast.Load()))]
        return "not applied"

    def _element(self, node: ast.Tuple) -> str:
        del node.elts[self._index]
        return f"without {self._index + 1}"

    def _reason(self, node: ast.Call) -> str:
        names = _reasons(node)
        gone = names.pop(self._index)
        node.args[3] = ast.parse(" | ".join(names), mode="eval").body
        return f"not for {gone}"


def changes(node: ast.AST, module: str) -> Iterator[tuple[str, Change]]:
    """Yield what may be changed at a node: how it was, and the change."""
    if module == "table":
        yield from _changes_of_table(node)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield ast.unparse(node), Change("compare")
    elif isinstance(node, ast.BoolOp):
        yield ast.unparse(node), Change("join")
        for index in range(len(node.values)):
            yield ast.unparse(node), Change("without", index)
    elif isinstance(node, ast.IfExp):
        yield ast.unparse(node), Change("swap")
    elif isinstance(node, ast.If):
        yield f"if {ast.unparse(node.test)}", Change("never")
    elif isinstance(node, ast.FunctionDef) and module == "intervals" and node.args.args[0].arg == "found":
        yield node.name, Change("plain")


def _changes_of_table(node: ast.AST) -> Iterator[tuple[str, Change]]:
    if isinstance(node, ast.Tuple) and node.elts and all(_is_row(one) for one in node.elts):
        for index, row in enumerate(node.elts):
            yield ast.unparse(row), Change("element", index)
    elif isinstance(node, ast.Tuple) and node.elts and all(isinstance(one, ast.Constant) for one in node.elts):
        for index in range(len(node.elts)):
            yield ast.unparse(node), Change("element", index)
    elif isinstance(node, ast.Call) and _is_row(node) and len(_reasons(node)) > 1:
        for index in range(len(_reasons(node))):
            yield ast.unparse(node), Change("reason", index)


def _reasons(row: ast.Call) -> list[str]:
    return [one.id for one in ast.walk(row.args[3]) if isinstance(one, ast.Name)]


def _is_row(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "PermissionRow"
