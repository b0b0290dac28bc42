"""Mutates the rules of the protocol, and shows which test of tests/spec notices each change.

`python -m bench.mutate_spec`, from the root of a checkout, runs all mutants; with `builder leader`, those of these
modules. The mutants are generated (`bench.cause_mutants`, `bench.spec_mutants`): a comparison, a condition, a choice or
a setting is another one; a part of a set, of a sum or of a change of state is left out; a rule is the one that the
variant before has.

A mutant is a module with one change of its syntax tree. Its functions replace those of the module's classes in this
process; no file is changed. First the conformance vectors are compared, then the tests run in a fork. What none of them
notices survived, unless `EQUIVALENT` says why nothing can. If a mutant survives, the exit code is 1. A run of all
mutants takes about half an hour; `--write` puts its figures into bench/results/.
"""

from __future__ import annotations

import argparse
import ast
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType

from analysis.spec.vector_file import Vector, load
from analysis.spec.vectors import compare, releases_of
from bench.equivalent_rules import EQUIVALENT
from bench.fates import Fates
from bench.forked_tests import failing_test
from bench.spec_mutants import MODULES, PACKAGE, spec_mutants_of
from ebbtide.own_code import limited_cpu
from ebbtide.version import commit_of
from tools.pages.measured import RESULTS, Measured, write_measured

_SPEC = Path(__file__).parents[1] / "tests" / "spec"
TESTS = tuple(
    _SPEC / f"test_{name}.py" for name in ("rules", "rules_of_changes", "recovery", "shutdown_file", "vectors")
)
"""The tests that a mutant meets, quick ones first; the vectors come before all of them."""
_ENDS_S = 10
"""Seconds of CPU after which a mutant is taken to go on for ever."""
_TESTS_END_S = 600


class Vectors:
    """The conformance vectors; what noticed one mutant is compared first with the next one."""

    def __init__(self) -> None:
        self._pairs = [(one, kafka) for one in load(_SPEC / "vectors" / "elr.jsonl") for kafka in releases_of(one)]

    def notices(self) -> str | None:
        """Return the vector that a mutant in place does not follow."""
        for at, (vector, kafka) in enumerate(self._pairs):
            if _differs(vector, kafka):
                self._pairs.insert(0, self._pairs.pop(at))
                return f"vector {vector.id} of {kafka}"
        return None


def _differs(vector: Vector, kafka: str) -> bool:
    try:
        with limited_cpu(_ENDS_S):
            return bool(compare(vector, kafka))
    except Exception:
        return True


@contextmanager
def in_place(module: ModuleType, tree: ast.Module) -> Iterator[None]:
    """Let the functions and settings of a tree be those of the module's classes during the block."""
    namespace = dict(vars(module))
    exec(compile(tree, module.__file__ or "", "exec"), namespace)
    before: list[tuple[object, str, object]] = []
    changed: list[tuple[object, str, object]]
    for name, stated in list(vars(module).items()):
        if getattr(stated, "__module__", None) != module.__name__:
            continue
        if isinstance(stated, FunctionType):
            users = [
                one for key, one in sys.modules.items() if key.startswith(PACKAGE) and vars(one).get(name) is stated
            ]
            changed = [(one, name, namespace[name]) for one in users]
        elif isinstance(stated, type):
            changed = [(stated, key, value) for key, value in _rules_of(namespace[name], stated)]
            namespace[name] = stated  # there is one class of each record and exception
        else:
            continue
        for owner, key, value in changed:
            before.append((owner, key, vars(owner)[key]))
            setattr(owner, key, value)
    try:
        yield
    finally:
        for owner, key, value in reversed(before):
            setattr(owner, key, value)


def _rules_of(mutated: type, stated: type) -> Iterator[tuple[str, object]]:
    """Yield the methods, properties and settings of a class, for the class that it stands for."""
    for key, value in vars(mutated).items():
        if key.startswith("__") or key not in vars(stated) or not isinstance(value, (FunctionType, property, bool)):
            continue
        for cell in getattr(value, "__closure__", None) or ():
            if cell.cell_contents is mutated:  # what `super()` begins at
                cell.cell_contents = stated
        yield key, value


def main(argv: Sequence[str] | None = None) -> int:
    """Run the mutants; 1 if one survives."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.mutate_spec", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("modules", nargs="*", metavar="MODULE", help=f"one of {', '.join(MODULES)} (default: all)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only mutants whose name has this text")
    parser.add_argument("--write", action="store_true", help="write bench/results/spec-mutants.json")
    parser.add_argument("--vectors-alone", action="store_true", help="run no test but the conformance vectors")
    args = parser.parse_args(argv)
    if unknown := sorted(set(args.modules) - set(MODULES)):
        parser.error(f"no module with mutants is called {unknown[0]!r}: there are {', '.join(MODULES)}")
    # The tests' helpers are no package: pytest finds them in these folders.
    sys.path[:0] = [str(_SPEC), str(_SPEC.parent / "support")]
    if args.write and (args.modules or args.only or args.vectors_alone):
        parser.error("--write is for a run of all mutants")
    vectors, fates = Vectors(), Fates(EQUIVALENT)
    if vectors.notices():
        sys.exit("a vector differs without any mutant")
    for name in args.modules or MODULES:
        module = import_module(f"{PACKAGE}.{name}")
        for mutant in spec_mutants_of(name):
            if args.only not in mutant.name:
                continue
            with in_place(module, mutant.tree):
                why = vectors.notices()
                if why is None and mutant.name not in EQUIVALENT and not args.vectors_alone:
                    why = failing_test(TESTS, ends_s=_TESTS_END_S)
            fates.add(mutant.name, why)
    if args.write:
        write_measured(RESULTS / "spec-mutants.json", _figures(fates.known))
    return fates.end()


def _figures(known: Sequence[tuple[str, str | None]]) -> Measured:
    """Return how many mutants of each module there are, and how many of them each file of tests noticed.

    `known` has the name of each mutant, and what noticed it.
    """
    killers = ("vectors", *(path.stem for path in TESTS))
    columns = ("rules of", "mutants", *killers, "equivalent", "survived")
    sums: dict[str, Counter[str]] = {}
    for name, why in known:
        if why is None:
            fate = "equivalent" if name in EQUIVALENT else "survived"
        else:
            fate = "vectors" if why.startswith("vector ") else why.partition(".py")[0]
        for row in (name.partition(".")[0], "all modules"):
            sums.setdefault(row, Counter()).update(["mutants", fate])
    total = sums.pop("all modules")
    return Measured(
        title="Do the tests notice a changed rule of the protocol?",
        about="Each mutant is one generated change of a rule in `analysis/spec`. First the conformance vectors are "
        "compared, then the tests run in this order until one fails. No test can notice an *equivalent* mutant: "
        "`bench/equivalent_rules.py` says why, for each.",
        command="python -m bench.mutate_spec --write",
        commit=commit_of(_SPEC.parents[1] / "ebbtide") or "not known",
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        host=f"{len(os.sched_getaffinity(0))} cores",
        columns=columns,
        rows=tuple(
            (row, *(str(count[column]) for column in columns[1:]))
            for row, count in (*sums.items(), ("all modules", total))
        ),
    )


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
