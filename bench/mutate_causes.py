"""Mutates the intervals, table and histories of the causes, and shows that simulated histories notice each change.

`python -m bench.mutate_causes`, from the root of a checkout, runs all mutants; with `table intervals`, those of these
modules. The mutants are generated: a row of the table is left out, or one of its conditions or reasons; the rule of a
function is not applied; a comparison, a condition or a choice is another one.

A mutant is a module with one change of its syntax tree, which replaces the module in this process; no file is changed.
The histories notice it if an answer is wrong by their truth, or fewer answers are right than without the mutant.
Only histories are judged in which the changed expression has another value (`bench.infected`).
What they leave alive is held against the unit tests of the causes: they have sentences, and what no history draws.
Otherwise it survived, unless `EQUIVALENT` says why nothing can notice it. If a mutant survives, the exit code is 1.
"""

from __future__ import annotations

import argparse
import ast
import copy
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulator import Script

from bench.cause_mutants import (
    PACKAGE,
    CauseMutant,
    Change,
    changes,
    mutant_name,
    mutants_of,
    path_of,
    places,
    same_node,
)
from bench.equivalent_causes import EQUIVALENT
from bench.fates import Fates
from bench.forked_tests import failing_test
from bench.infected import Infections
from bench.killing_seeds import KILLERS, KILLERS_DEGRADED
from ebbtide.own_code import limited_cpu

MODULES = (
    "table",
    "answer",
    "guilt",
    "intervals",
    "moments",
    "liveness",
    "leaders",
    "histories",
    "elections",
    "epochs",
    "partition",
    "words",
)
HISTORIES = 100
DEGRADED = 40
INFECTED_MAX = 80
"""A mutant is run in at most so many histories in which its expression has another value."""
UNREACHED = "no history reaches it"
_SENDS_MAX = 10
"""About so many lost sends of a partition are judged: their neighbours share their fate. Of a killer, all are."""
_ENDS_S = 10
"""Seconds of CPU after which a mutant is taken to go on for ever."""
_TESTS_END_S = 60
_ROOT = Path(__file__).parents[1]
UNIT_TESTS: tuple[Path, ...] = tuple(
    one
    for one in sorted((_ROOT / "tests" / "unit" / "analysis" / "causes").glob("test_*.py"))
    if one.stem != "test_known_truths"
)
"""Whole run records are not read: they take seconds, and the histories have what is in them."""
_READS_TABLE = "permits"


class CauseSuite:
    """Simulated histories with their truth, and how many answers on each were right without a mutant."""

    def __init__(self, scripts: Iterable[Script], modules: Sequence[str]) -> None:
        from simulator import simulate
        from simulator.core import core_histories

        simulated = (simulate(one) for one in scripts)
        self._histories = [(one, core_histories(one)) for one in simulated if one.lost]
        self._infections = Infections(INFECTED_MAX)
        self._right = self._first_answers(modules)
        self._noticed: list[int] = []

    def _first_answers(self, modules: Sequence[str]) -> list[int]:
        """Return how many answers are right; meanwhile, find where the mutants of modules have other values."""
        for name in modules:
            original = ast.parse(path_of(name).read_text())
            tree = self._infections.put_into(original, _changed(name, original))
            module = import_module(f"{PACKAGE}.{name}")
            module.__dict__["_compared"] = self._infections.compared
            _become(module, tree)
        found = []
        for at in range(len(self._histories)):
            self._infections.history = at
            right, is_wrong = self._judged(at)
            if is_wrong:
                sys.exit(f"the causes do not agree with the truth as they are, {self._where(at)}")
            found.append(right)
        for name in modules:
            _become(import_module(f"{PACKAGE}.{name}"), ast.parse(path_of(name).read_text()))
        return found

    def _judged(self, at: int) -> tuple[int, bool]:
        """Return how many answers are right or name the cause, and whether one is wrong."""
        from simulator.causes_judge import answers_of
        from simulator.compare import WRONG, kind_of

        history, inputs = self._histories[at]
        is_killer = history.script.seed in (*KILLERS, *KILLERS_DEGRADED)
        answers = answers_of(history, inputs, most=None if is_killer else _SENDS_MAX)
        kinds = [
            kind_of(one, answers[one.key], violated=history.violated) for one in history.lost if one.key in answers
        ]
        return sum((kind == "right") + (kind != "no-cause") for kind in kinds), any(kind in WRONG for kind in kinds)

    def _where(self, at: int) -> str:
        script = self._histories[at][0].script
        return f"in {script.seed}{' degraded' if script.lacks else ''}"

    def notices(self, mutant: CauseMutant) -> str | None:
        """Return what shows that something is wrong with a mutant, and in which history; None: nothing does."""
        infected = self._infections.of(mutant.name)
        # What noticed one mutant may notice the next one.
        for at in sorted(infected, key=lambda one: (one not in self._noticed, one)):
            try:
                with limited_cpu(_ENDS_S):
                    right, is_wrong = self._judged(at)
            except Exception as error:
                why: str | None = f"throws {type(error).__name__}"
            else:
                why = "a wrong answer" if is_wrong else "fewer answers" if right < self._right[at] else None
            if why is not None:
                self._noticed = [at, *self._noticed[:20]]
                return f"{why} {self._where(at)}"
        return None if infected else UNREACHED


def _changed(module: str, tree: ast.Module) -> Iterator[tuple[ast.AST, str, ast.AST]]:
    """Yield the nodes of a tree, the name of each mutant there, and what the mutant makes of the node."""
    for place, node in places(tree):
        for was, change in changes(node, module):
            if change.is_of_table:
                yield _other_table(module, tree, place, node, was, change)
                continue
            mutated = copy.deepcopy(node)
            became = change(mutated)
            name = mutant_name(module, place, was, became)
            if isinstance(node, ast.If) and isinstance(mutated, ast.If):
                yield node.test, name, mutated.test
            else:
                yield node, name, mutated


def _other_table(
    module: str, tree: ast.Module, place: str, node: ast.AST, was: str, change: Change
) -> tuple[ast.AST, str, ast.AST]:
    """Return the function that reads the table, the name of the mutant, and a call of that function of the mutant."""
    mutated = copy.deepcopy(tree)
    became = change(same_node(tree, mutated, node))
    namespace: dict[str, object] = {"__name__": f"{PACKAGE}.{module}"}
    exec(compile(ast.fix_missing_locations(mutated), module, "exec"), namespace)
    users = import_module(f"{PACKAGE}.{module}").__dict__
    called = f"_mutant_{len(users)}"
    users[called] = namespace[_READS_TABLE]
    reader = next(one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name == _READS_TABLE)
    names = ", ".join(one.arg for one in reader.args.args)
    call = ast.parse(f"{called}({names})", mode="eval").body
    return reader, mutant_name(module, place, was, became), call


def _become(module: ModuleType, tree: ast.Module) -> None:
    """Let a module be this tree, also for those that imported names of it."""
    exec(compile(tree, module.__file__ or "", "exec"), module.__dict__)
    for name, user in list(sys.modules.items()):
        if name.startswith((PACKAGE, "simulator.")):
            for key, value in list(vars(user).items()):
                if getattr(value, "__module__", None) == module.__name__ and key in module.__dict__:
                    setattr(user, key, module.__dict__[key])


def main(argv: Sequence[str] | None = None) -> int:
    """Run the mutants; 1 if one survives."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.mutate_causes",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("modules", nargs="*", metavar="MODULE", help=f"one of {', '.join(MODULES)} (default: all)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only mutants whose name has this text")
    parser.add_argument("--histories", type=int, default=HISTORIES, help="with whole evidence (default %(default)s)")
    parser.add_argument("--degraded", type=int, default=DEGRADED, help="with evidence missing (default %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the seed of the first history (default %(default)s)")
    args = parser.parse_args(argv)
    if unknown := sorted(set(args.modules) - set(MODULES)):
        parser.error(f"no module with mutants is called {unknown[0]!r}: there are {', '.join(MODULES)}")
    # The tests' helpers are no package: pytest finds them in this folder.
    sys.path.insert(0, str(_ROOT / "tests" / "support"))
    from simulator import draw_script

    whole, degraded = range(args.first, args.first + args.histories), range(args.first, args.first + args.degraded)
    # A mutant is run in the first histories that it infects.
    scripts = [
        *(draw_script(seed) for seed in KILLERS),
        *(draw_script(seed, degraded=True) for seed in KILLERS_DEGRADED),
        *(draw_script(seed) for seed in whole),
        *(draw_script(30_000 + seed, degraded=True) for seed in degraded),
    ]
    modules = args.modules or MODULES
    suite = CauseSuite(scripts, modules)
    return _run(suite, modules, args.only)


def _noticed(suite: CauseSuite, mutant: CauseMutant) -> str | None:
    """Return what notices a mutant that is in place."""
    try:
        why = suite.notices(mutant)
    except Exception as error:
        return f"throws {type(error).__name__}"
    if why in (None, UNREACHED) and mutant.name not in EQUIVALENT and UNIT_TESTS:
        return failing_test(UNIT_TESTS, ends_s=_TESTS_END_S) or why
    return why


def _run(suite: CauseSuite, modules: Sequence[str], only: str) -> int:
    fates = Fates(EQUIVALENT)
    if UNIT_TESTS and (failing := failing_test(UNIT_TESTS, ends_s=_TESTS_END_S)):
        sys.exit(f"a unit test fails without any mutant: {failing}")
    for name in modules:
        module = import_module(f"{PACKAGE}.{name}")
        original = ast.parse(path_of(name).read_text())
        for mutant in (one for one in mutants_of(name) if only in one.name):
            try:
                _become(module, mutant.tree)
                why = _noticed(suite, mutant)
            finally:
                _become(module, original)
            fates.add(mutant.name, None if why == UNREACHED else why, UNREACHED if why == UNREACHED else "")
    return fates.end()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
