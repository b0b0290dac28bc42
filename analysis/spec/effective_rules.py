"""Writes one protocol variant as one text, with every event and rule in force.

A variant's module states only what differs from the variant before. This module follows the calls
from each event and writes out the functions that really run, in one class without a base class. The
text is Python: a test runs it against the conformance vectors.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from analysis.spec import builder, leader, partition, shutdown, unclean_recovery
from analysis.spec import protocol as protocol_module
from analysis.spec.builder import Builder
from analysis.spec.explore.wording import clause_of
from analysis.spec.leader import LeaderRules, LeaderStep
from analysis.spec.protocol import Protocol
from ebbtide.errors import UsageError
from ebbtide.suggestions import did_you_mean

_ACTION_OF = {
    "fence": "fence",
    "unfence": "unfence",
    "register": "start",
    "controlled_shutdown": "stop",
    "unregister": "unregister",
    "alter_partition": "deliver",
    "elect": "elect-preferred",
    "balance": "elect-preferred",
    "sweep": "elect-unclean",
    "reassign": "reassign",
    "cancel_reassignment": "cancel-reassignment",
    "set_min_isr": "set-min-isr",
    "append": "append",
    "fetch": "ask-expand",
    "maybe_shrink": "ask-shrink",
    "isr_published": "advance-hw",
}
"""The explorer's action for an event: both follow the same clause."""
_TITLE_WIDTH = 76
_CLAUSE_OF = {
    "set_broker_min_isr": "min.insync.replicas",
    "set_unclean": "unclean.leader.election.enable",
    "directory_offline": "KIP-858",
    "assign_directory": "KIP-858",
    "set_elr_feature": "KIP-966, Compatibility: ELR",
    "recover": "KIP-966, Unclean recovery",
    "designate": "KIP-966, ElectLeaders v3",
    "acked": "min.insync.replicas",
    "isr_accepted": "KIP-497",
    "isr_refused": "KIP-497",
    "fetch_epoch": "KIP-903",
    "previous_epoch": "KIP-966, Detection of an unclean shutdown",
}
"""The clauses of events that have no action in the explorer."""
_SHARED = "all variants"
_SENT_BY_BROKERS = ("fetch_epoch", "previous_epoch")
_MODULES: tuple[ModuleType, ...] = (partition, builder, leader, shutdown, unclean_recovery, protocol_module)
"""The modules with the records, constants and functions that rules use.

Each module uses only those before it.
"""
_IMPORTS = """\
from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from enum import IntEnum
from typing import Any, Literal, NamedTuple
"""


class _Method(NamedTuple):
    """A function of a variant.

    `owner` states it; `name` differs from the function's own name where it was overridden.
    """

    name: str
    owner: type
    function: Callable[..., Any]


def events_of(protocol: Protocol) -> tuple[str, ...]:
    """Return the names of a variant's events: the controller's, then the leader's."""
    return (
        *_methods_returning(Protocol, "Outcome"),
        *_methods_returning(LeaderRules, LeaderStep.__name__),
        *_SENT_BY_BROKERS,
    )


def _rules_of(protocol: Protocol) -> tuple[str, ...]:
    """Return the names of a variant's events and of the rules that they call."""
    stated = type(protocol)
    return tuple(
        one for one in dir(stated) if not one.startswith("_") and isinstance(getattr(stated, one), FunctionType)
    )


def text_of(protocol: Protocol, event: str | None = None) -> str:
    """Return the variant as one Python module.

    With `event`, it has that event alone and what the event calls; the name of a rule does the same. Raises UsageError
    for an unknown name.
    """
    events, rules = events_of(protocol), _rules_of(protocol)
    if event is not None and event not in rules:
        raise UsageError(
            f"the protocol has no such event or rule{did_you_mean(event, rules)}", got=event, allowed=", ".join(events)
        )
    others = () if event is None or event in events else (event,)
    asked = [one for one in (*events, *others) if event in (None, one)]
    methods: dict[str, _Method] = {}
    sections: list[tuple[str, list[_Method]]] = []
    for title, group in (
        ("What the controller does", _methods_returning(Protocol, "Outcome")),
        ("What the leader does", _methods_returning(LeaderRules, LeaderStep.__name__)),
        ("What brokers send", _SENT_BY_BROKERS),
        ("The rule", others),
    ):
        shown = [_method_in_force(protocol, name) for name in group if name in asked]
        called = [one for one in _called_methods(protocol, shown) if one.name not in {*asked, *methods}]
        sections += [(title, shown), (f"{title}: the rules that these events call", called)]
        methods |= {one.name: one for one in (*shown, *called)}
    body = "\n".join(_section(protocol, title, shown) for title, shown in sections if shown)
    everything = list(methods.values())
    parts = [
        f'"""{_title(protocol)}"""',
        _IMPORTS.rstrip(),
        *_definitions(protocol, [one.function for one in everything]),
        f"class {type(protocol).__name__}:\n" + textwrap.indent(_settings(protocol, everything) + body, "    "),
    ]
    return "\n\n\n".join(parts).rstrip() + "\n"


def _title(protocol: Protocol) -> str:
    older = [one.name for one in reversed(_classes_of(protocol)) if "name" in vars(one)]
    title = textwrap.fill(f"The rules of {protocol.name}: {protocol.source.rstrip('.')}.", _TITLE_WIDTH)
    variants = textwrap.fill(f"Variants, oldest first: {', '.join(older)}.", _TITLE_WIDTH)
    return f"{title}\n\n{variants}\nA comment above each rule names the variant that states it.\n"


def _classes_of(protocol: Protocol) -> list[Any]:
    return [one for one in type(protocol).__mro__ if one is not object]


def _variant(owner: type) -> str:
    """Return the variant that a class states; not one of the classes that all share."""
    return str(vars(owner).get("name", _SHARED))


def _methods_returning(owner: type, record: str) -> tuple[str, ...]:
    """Return the public methods of `owner` that return `record`, in source order."""
    return tuple(
        name
        for name, one in vars(owner).items()
        if isinstance(one, FunctionType) and not name.startswith("_") and one.__annotations__.get("return") == record
    )


def _method_in_force(protocol: Protocol, name: str, after: type | None = None) -> _Method:
    """Return the method that runs under `name`.

    `after`: return the method that `super()` means in that class.
    """
    owners = _classes_of(protocol)
    owner = next(one for one in owners[owners.index(after) + 1 if after else 0 :] if name in vars(one))
    return _method_stated_by(owner, name, overridden=after is not None)


def _method_stated_by(owner: type, name: str, *, overridden: bool) -> _Method:
    return _Method(f"{name}_in_{_variant(owner).replace(' ', '_')}" if overridden else name, owner, vars(owner)[name])


def _called_methods(protocol: Protocol, begin: list[_Method]) -> list[_Method]:
    """Return what `begin` calls, directly or not, in the order of the first call."""
    found: dict[str, _Method] = {}
    waiting = list(begin)
    while waiting:
        nearest = [one for one in _calls_of(protocol, waiting.pop(0)) if one.name not in found]
        found |= {one.name: one for one in nearest}
        waiting = [*nearest, *waiting]
    return [one for one in found.values() if one not in begin]


def _calls_of(protocol: Protocol, method: _Method) -> Iterator[_Method]:
    """Yield the variant's methods that a method calls.

    Calls by `super()` or by the name of an older variant's class count too.
    """
    classes = {one.__name__: one for one in _classes_of(protocol)}
    for node in ast.walk(_tree(method.function)):
        if not isinstance(node, ast.Attribute):
            continue
        match node.value:
            case ast.Name(id="self") if isinstance(getattr(type(protocol), node.attr, None), FunctionType):
                yield _method_in_force(protocol, node.attr)
            case ast.Call(func=ast.Name(id="super")):
                yield _method_in_force(protocol, node.attr, after=method.owner)
            case ast.Name(id=name) if name in classes:
                yield _method_stated_by(_owner_of(classes[name], node.attr), node.attr, overridden=True)


def _owner_of(begin: type, name: str) -> type:
    return next(one for one in begin.__mro__ if name in vars(one))


def _section(protocol: Protocol, title: str, methods: list[_Method]) -> str:
    return f"\n# {title}\n# {'-' * len(title)}\n\n" + "\n".join(_method_text(protocol, one) for one in methods)


def _method_text(protocol: Protocol, method: _Method) -> str:
    """Return a method's source under its clause and the variant that states it.

    In it, overridden rules are called by name.
    """
    name = method.function.__name__
    source = textwrap.dedent(inspect.getsource(method.function))
    source = source.replace(f"def {name}(", f"def {method.name}(", 1)
    classes = {one.__name__: one for one in _classes_of(protocol)}

    def rename(found: re.Match[str]) -> str:
        called = found["name"]
        if found["of"] == "super()":
            return f"self.{_method_in_force(protocol, called, after=method.owner).name}("
        return f"self.{_method_stated_by(_owner_of(classes[found['of']], called), called, overridden=True).name}("

    source = re.sub(r"(?P<of>super\(\))\.(?P<name>\w+)\(", rename, source)
    source = re.sub(rf"\b(?P<of>{'|'.join(classes)})\.(?P<name>\w+)\(self, ", rename, source)
    return f"# {_heading(protocol, method)}\n{source}"


def _heading(protocol: Protocol, method: _Method) -> str:
    name = method.function.__name__
    stated = _variant(method.owner)
    older = [
        _variant(one)
        for one in _classes_of(protocol)[_classes_of(protocol).index(method.owner) + 1 :]
        if name in vars(one)
    ]
    words = "unchanged since kraft" if stated == _SHARED else f"since {stated}"
    if older and stated != "kraft":
        words += f", instead of the rule since {'kraft' if older[0] == _SHARED else older[0]}"
    clause = clause_of(_ACTION_OF[name], protocol) if name in _ACTION_OF else _CLAUSE_OF.get(name)
    return f"{clause} ({words})" if clause else words[0].upper() + words[1:]


def _settings(protocol: Protocol, methods: list[_Method]) -> str:
    """Return the class attributes that the methods read, with their values."""
    read = {node.attr for one in methods for node in ast.walk(_tree(one.function)) if isinstance(node, ast.Attribute)}
    lines = [f"name = {protocol.name!r}"]
    for owner in (Protocol, Builder, LeaderRules):
        for name, says in _attributes(owner):
            if name not in read:
                continue
            stating = _owner_of(type(protocol), name)
            lines += [f"# {'Unchanged since kraft' if stating is owner else 'Since ' + _variant(stating)}"]
            lines += [f"{name} = {getattr(protocol, name)!r}", f'"""{says}"""']
    return "\n".join(lines) + "\n"


def _attributes(owner: type) -> Iterator[tuple[str, str]]:
    """Yield the settings that a class declares with a default, and their docstrings."""
    body = _class_body(owner)
    for node, following in pairwise(body):
        match node, following:
            case (
                ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()),
                ast.Expr(value=ast.Constant(value=str(says))),
            ):
                yield name, says


def _class_body(owner: type) -> list[ast.stmt]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(owner)))
    found = tree.body[0]
    assert isinstance(found, ast.ClassDef), "the source of a class is a class"
    return found.body


@cache
def _tree(function: Callable[..., Any]) -> ast.Module:
    return ast.parse(textwrap.dedent(inspect.getsource(function)))


def _definitions(protocol: Protocol, functions: list[Callable[..., Any]]) -> list[str]:
    """Return the module-level definitions that the functions use, in a valid order.

    These are records, constants and functions, used directly or not.
    """
    modules = (*_MODULES, sys.modules[type(protocol).__module__])
    known = {name: (module, nodes) for module in modules for name, nodes in _top_level(module).items()}
    wanted: set[str] = set()
    texts = [textwrap.dedent(inspect.getsource(one)) for one in functions]
    while texts:
        used = {node.id for node in ast.walk(ast.parse(texts.pop())) if isinstance(node, ast.Name)}
        for name in sorted((used & known.keys()) - wanted):
            wanted.add(name)
            texts.append(_source_of(*known[name]))
    return [_source_of(*known[name]) for name in known if name in wanted]


@cache
def _top_level(module: ModuleType) -> dict[str, tuple[ast.stmt, ast.stmt]]:
    """Return what a module defines, by name, with the docstrings of the definitions.

    Each value is the first and the last node of a definition.
    """
    body = ast.parse(inspect.getsource(module)).body
    found: dict[str, tuple[ast.stmt, ast.stmt]] = {}
    for node, following in zip(body, [*body[1:], ast.Pass()], strict=True):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                found[name] = (node, following if isinstance(following, ast.Expr) else node)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) if not _is_variant(module, name):
                found[name] = (node, node)
    return found


def _is_variant(module: ModuleType, name: str) -> bool:
    stated = vars(module)[name]
    return isinstance(stated, type) and issubclass(stated, (Builder, LeaderRules))


def _source_of(module: ModuleType, nodes: tuple[ast.stmt, ast.stmt]) -> str:
    first, last = nodes
    return "\n".join(inspect.getsource(sys.modules[module.__name__]).splitlines()[first.lineno - 1 : last.end_lineno])
