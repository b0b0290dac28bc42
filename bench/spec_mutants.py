"""Says what `bench.mutate_spec` changes in the rules of the protocol, besides what `bench.cause_mutants` does."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from enum import Enum
from importlib import import_module

from bench.cause_mutants import CauseMutant, Change, changes, mutants_of

PACKAGE = "analysis.spec"
MODULES = (
    "builder",
    "leader",
    "protocol",
    "partition",
    "shutdown",
    "unclean_recovery",
    "kraft",
    "kip903",
    "strict_min_isr",
    "elr_40",
    "elr_41",
    "elr_43",
    "kip966",
    "kip966_last_known",
)
"""The modules with rules; the other ones of the package read or explore them."""


class SpecChange(Change):
    """One change of a rule: each returns what the expression became."""

    def _left(self, node: ast.BinOp) -> str:
        node.right = node.left
        return f"{ast.unparse(node.left)} alone"

    def _right(self, node: ast.BinOp) -> str:
        node.left = node.right
        return f"{ast.unparse(node.right)} alone"

    def _minus_nothing(self, node: ast.BinOp) -> str:
        node.right = ast.Call(ast.Name("type", ast.Load()), [node.left], [])
        node.right = ast.Call(node.right, [], [])
        return f"{ast.unparse(node.left)} alone"

    def _flip(self, node: ast.Constant) -> str:
        node.value = not node.value
        return str(node.value)

    def _setting(self, node: ast.Assign | ast.AnnAssign) -> str:
        assert isinstance(node.value, ast.Constant)
        return self._flip(node.value)

    def _yes(self, node: ast.UnaryOp) -> str:
        node.op, node.operand = ast.Not(), ast.UnaryOp(ast.Not(), node.operand)
        return "not negated"

    def _keyword(self, node: ast.Call) -> str:
        gone = node.keywords.pop(self._index)
        return f"without {gone.arg}"

    def _argument(self, node: ast.Call) -> str:
        gone = node.args[self._index]
        node.args[self._index] = node.args[1 - self._index]
        return f"without {ast.unparse(gone)}"

    def _member(self, node: ast.Set) -> str:
        gone = node.elts.pop(self._index)
        return f"without {ast.unparse(gone)}"

    def _inherited(self, node: ast.FunctionDef) -> str:
        names = [ast.Name(one.arg, ast.Load()) for one in node.args.args[1:]]
        kept = [ast.keyword(one.arg, ast.Name(one.arg, ast.Load())) for one in node.args.kwonlyargs]
        called = ast.Attribute(ast.Call(ast.Name("super", ast.Load()), [], []), node.name, ast.Load())
        node.body = [ast.Return(ast.Call(called, [*names], kept))]
        return "the rule before"


def spec_mutants_of(module: str) -> Iterator[CauseMutant]:
    """Yield the mutants of a module of `analysis.spec`, each with a name of its own.

    The defaults of its records are no rules.
    """
    found = import_module(f"{PACKAGE}.{module}")
    records = {name for name, one in vars(found).items() if isinstance(one, type) and issubclass(one, (tuple, Enum))}
    classes = {name for name, one in vars(found).items() if isinstance(one, type)}
    named = Counter[str]()
    for one in mutants_of(module, PACKAGE, _changes):
        is_setting = one.place in classes and one.was in ("True", "False")  # named by its assignment
        if one.place in records or is_setting:
            continue
        named[one.name] += 1
        count = named[one.name]
        yield one if count == 1 else replace(one, became=f"{one.became} ({count})")


def _changes(node: ast.AST, module: str) -> Iterator[tuple[str, Change]]:
    """Yield what may be changed at a node: how it was, and the change."""
    yield from changes(node, module)
    match node:
        case ast.BinOp(op=ast.Sub() | ast.Add()) if not _has_text(node):
            yield ast.unparse(node), SpecChange("minus_nothing")
        case ast.BinOp(op=ast.BitOr() | ast.BitAnd()) if not _is_type(node):
            yield ast.unparse(node), SpecChange("left")
            yield ast.unparse(node), SpecChange("right")
        case (
            ast.Assign(targets=[name], value=ast.Constant(value=bool()))
            | ast.AnnAssign(target=name, value=ast.Constant(value=bool()))
        ):
            yield ast.unparse(name), SpecChange("setting")
        case ast.Constant(value=bool()):
            yield ast.unparse(node), SpecChange("flip")
        case ast.UnaryOp(op=ast.Not()):
            yield ast.unparse(node), SpecChange("yes")
        case ast.Call(func=ast.Attribute(attr="_replace")) if len(node.keywords) > 1:
            for index in range(len(node.keywords)):
                yield ast.unparse(node), SpecChange("keyword", index)
        case ast.Call(func=ast.Name(id="min" | "max")) if len(node.args) == 2:
            for index in range(2):
                yield ast.unparse(node), SpecChange("argument", index)
        case ast.Set():
            for index in range(len(node.elts)):
                yield ast.unparse(node), SpecChange("member", index)
        case ast.FunctionDef() if _is_override(module, node):
            yield node.name, SpecChange("inherited")


def _has_text(node: ast.AST) -> bool:
    return any(isinstance(one, ast.Constant) and isinstance(one.value, str) for one in ast.walk(node))


def _is_type(node: ast.AST) -> bool:
    """Whether this is an annotation, which nothing reads when it runs."""
    known = {"bool", "int", "str", "tuple", "Brokers", "UncleanElection", "Partition"}
    names = [one.id for one in ast.walk(node) if isinstance(one, ast.Name)]
    return any(isinstance(one, ast.Constant) and one.value is None for one in ast.walk(node)) or set(names) <= known


def _is_override(module: str, node: ast.FunctionDef) -> bool:
    """Whether a class of the module has a base class that has this rule, too."""
    found = import_module(f"{PACKAGE}.{module}")
    classes = [one for one in vars(found).values() if isinstance(one, type) and one.__module__ == found.__name__]
    return any(
        node.name in vars(one)
        and vars(one)[node.name].__code__.co_firstlineno == node.lineno
        and any(hasattr(base, node.name) for base in one.__bases__)
        for one in classes
        if hasattr(vars(one).get(node.name), "__code__")
    )
