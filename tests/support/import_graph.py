"""Finds the imports between packages of the project, from the source alone.

Nothing is imported.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

LAYERS: Mapping[str, frozenset[str]] = {
    "ebbtide": frozenset(),
    "cluster": frozenset({"ebbtide"}),
    "faults": frozenset({"ebbtide", "cluster"}),
    "workloads": frozenset({"ebbtide", "cluster"}),
    "analysis": frozenset({"ebbtide"}),
    "harness": frozenset({"ebbtide", "cluster", "faults", "workloads", "analysis"}),
}
"""What each top-level package may import, beside itself."""


class Import(NamedTuple):
    """Module `by` imports module `of`; both are dotted names."""

    by: str
    of: str

    def package_pair(self, depth: int) -> tuple[str, str]:
        """The packages at `depth` that the two modules belong to."""
        return _package(self.by, depth), _package(self.of, depth)


def imports_in(root: Path) -> list[Import]:
    """Return every import of one module of the project by another.

    Imports within functions and for types only count too.
    """
    modules = {
        _dotted_name(path.relative_to(root)): path for top in LAYERS for path in sorted((root / top).rglob("*.py"))
    }
    return [
        Import(name, found)
        for name, path in modules.items()
        for found in sorted(_named_modules(path.read_text()) & modules.keys() - {name})
    ]


def disallowed_imports(imports: Iterable[Import]) -> list[str]:
    """Each import that `LAYERS` does not allow, as a sentence that names both files."""
    arrows = [(one, *one.package_pair(1)) for one in imports]
    return [_sentence(one) for one, by, of in arrows if of != by and of not in LAYERS[by]]


def circle(imports: Iterable[Import], depth: int = 2) -> list[str]:
    """Return the imports of one circle of packages at `depth`, as sentences.

    Returns nothing if there is no circle. A module directly in a package above is a package of its own. What a
    package itself holds is in no circle with what is below it: importing any module of it imports that.
    """
    graph: dict[str, set[str]] = {}
    examples: dict[tuple[str, str], Import] = {}
    for one in imports:
        by, of = one.package_pair(depth)
        if not f"{by}.".startswith(f"{of}.") and not f"{of}.".startswith(f"{by}."):
            graph.setdefault(by, set()).add(of)
            examples.setdefault((by, of), one)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        # graphlib names each package before the one that depends on it.
        return [_sentence(examples[by, of]) for of, by in pairwise(found)]
    return []


def arrows(imports: Iterable[Import]) -> set[tuple[str, str]]:
    """The top-level packages that import one another."""
    return {(by, of) for by, of in (one.package_pair(1) for one in imports) if by != of}


def _sentence(one: Import) -> str:
    return f"{one.by.replace('.', '/')}.py imports {one.of.replace('.', '/')}.py"


def _package(module: str, depth: int) -> str:
    return ".".join(module.split(".")[:depth])


def _dotted_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def _named_modules(text: str) -> frozenset[str]:
    """What a module's text imports. Parsed once: copies of the project differ in one file."""
    return frozenset(_imported_names(ast.parse(text)))


def _imported_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import"
            assert node.module is not None
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
