"""Takes a protocol variant and a property of the user from Python files.

`--variant FILE.py` names a file with one class that derives from a shipped variant: the change is the file. While it is
in use, the variant is in `VARIANTS` under the file's name, and everything that takes a variant's key takes it.
`--property FILE.py` names a file with one function `holds(partition, cluster)`, as the invariants have it.

A rule that does not exist or takes other parameters is an error before anything is searched. What shows only when a
rule runs is an error with its line: an exception, an answer of a wrong type, another answer to the same question, and
no answer within `ENDS_S` seconds of CPU.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from types import FunctionType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from analysis.spec.explore.properties import PROPERTIES, property_of
from analysis.spec.invariants import Invariant
from analysis.spec.partition import Cluster, Partition
from analysis.spec.protocol import Protocol
from analysis.spec.variants import VARIANTS
from ebbtide.errors import EbbtideError
from ebbtide.own_code import ENDS_S, OwnCodeError, OwnFile, limited_cpu, run_own_file
from ebbtide.suggestions import did_you_mean

_VARIANT = "a Python file with one class that derives from a shipped variant, such as analysis.spec.elr_43.Elr43"
PROPERTY_FILE = "a Python file with one function `holds(partition, cluster)` that returns True or False"
_NEXT = "ebbtide spec rules 4.4.0    (the rules that a class may state)"
PROPERTY_NEXT = "ebbtide spec rules 4.4.0 fence    (begins with Partition and Cluster)"
_SPECIFICATION = Path(__file__).parent
_ASKED_TWICE = 20

_in_use: dict[str, OwnFile] = {}
"""The files of the variants in use, by their keys."""


@contextmanager
def own_variant(path: Path) -> Iterator[OwnFile]:
    """Have the variant of a file in `VARIANTS` during the block. Raises `UsageError` for a wrong file."""
    own = run_own_file(path, "protocol variant", _VARIANT, _NEXT)
    key = path.stem
    if key in VARIANTS:
        raise own.error("another protocol variant has this name", own.name, allowed="a file with another name")
    VARIANTS[key] = _variant_in(own)
    _in_use[key] = own
    try:
        with _answers_of(own):
            yield own
    finally:
        del VARIANTS[key], _in_use[key]


@contextmanager
def own_property(path: Path) -> Iterator[OwnFile]:
    """Have the property of a file in `PROPERTIES` during the block. Raises `UsageError` for a wrong file."""
    own = run_own_file(path, "property", PROPERTY_FILE, PROPERTY_NEXT)
    if own.name in PROPERTIES:
        raise own.error("another property has this name", own.name, allowed="a file with another name")
    PROPERTIES[own.name] = property_of(invariant_in(own))
    try:
        yield own
    finally:
        del PROPERTIES[own.name]


@contextmanager
def _answers_of(own: OwnFile) -> Iterator[None]:
    """Report a failure of the specification that goes on with what the user's file answered as an error of the file."""
    try:
        yield
    except EbbtideError:
        raise
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        if _SPECIFICATION not in Path(last.filename).parents:
            raise
        raise own.error(
            "the specification cannot go on with what a rule of this file answered",
            f"{type(error).__name__}: {error} ({Path(last.filename).name}, line {last.lineno})",
            allowed="brokers of the cluster, and replicas of the partition",
        ) from error


def own_variant_file(variant: str) -> OwnFile | None:
    """Return the file that a variant in use is from; None for a shipped one."""
    return _in_use.get(variant)


def invariant_in(own: OwnFile) -> Invariant:
    """Return the property of a file that ran. Raises `UsageError` if it has none, or a wrong one."""
    function = getattr(own.module, "holds", None)
    if not isinstance(function, FunctionType):
        got = "no `holds`" if function is None else f"holds is a {type(function).__name__}"
        raise own.error("the file has no property", got)

    def holds(partition: Partition, cluster: Cluster) -> bool:
        """Stand for what every property takes and returns."""
        raise NotImplementedError

    _check_parameters(own, function, holds, PROPERTY_NEXT)
    words = inspect.getdoc(own.module) or inspect.getdoc(function) or own.path.name
    says = " ".join(words.partition("\n\n")[0].split())
    return Invariant(own.name, says, _checked(own, function, holds, PROPERTY_NEXT))


def _variant_in(own: OwnFile) -> Protocol:
    classes = [
        one
        for one in vars(own.module).values()
        if isinstance(one, type) and issubclass(one, Protocol) and one.__module__ == own.module.__name__
    ]
    if len(classes) != 1:
        names = ", ".join(one.__name__ for one in classes)
        what = "the file has more than one class" if classes else "the file has no protocol variant"
        raise own.error(what, names or "no class that derives from one")
    (stated,) = classes
    shipped = {type(one) for one in VARIANTS.values()}
    base = next((one for one in stated.__mro__ if one in shipped), None)
    if base is None:
        raise own.error("the class derives from no shipped variant", stated.__name__)
    for owner in (one for one in stated.__mro__ if one.__module__ == own.module.__name__):
        for name, value in list(vars(owner).items()):
            if not name.startswith("_"):
                _check_rule(own, owner, base, name, value)
            elif not name.startswith("__") and hasattr(base, name):
                raise own.error("a helper has the name of one of the base", name, allowed="another name")
    words = " ".join((own.module.__doc__ or stated.__doc__ or "").partition("\n\n")[0].split())
    for name, text in (("name", own.path.stem), ("source", words or own.path.name)):
        setattr(stated, name, text)
    try:
        return stated()
    except Exception as error:
        raise own.failure("the class cannot be made", error) from None


def _check_rule(own: OwnFile, stated: type[Protocol], base: type[Protocol], name: str, value: object) -> None:
    """Check one rule or setting of the class, and have the answers of a rule checked from now on."""
    line = value.__code__.co_firstlineno if isinstance(value, FunctionType) else None
    if not hasattr(base, name):
        known = [one for one in dir(base) if not one.startswith("_")]
        allowed = f"names that {base.__name__} has; a helper's name begins with _"
        raise own.error(f"the protocol has no such rule{did_you_mean(name, known)}", name, allowed=allowed, line=line)
    stands = getattr(base, name)
    if type(value) is not type(stands):
        kinds = [f"a {'rule' if isinstance(one, FunctionType) else type(one).__name__}" for one in (value, stands)]
        raise own.error(f"{name} is of another kind", kinds[0], allowed=f"{kinds[1]}, as in {base.__name__}", line=line)
    if isinstance(value, FunctionType):
        declared = _declared(base, name)
        printed = f"ebbtide spec rules {base.name.replace('_', '-')} {name}"
        _check_parameters(own, value, declared, printed)
        setattr(stated, name, _checked(own, value, declared, printed))


def _declared(base: type, name: str) -> Callable[..., Any]:
    """Return the oldest function of this name: it has the types that all others keep."""
    declared: Callable[..., Any] = next(vars(one)[name] for one in reversed(base.__mro__) if name in vars(one))
    return declared


def _check_parameters(own: OwnFile, stated: FunctionType, stands: Callable[..., Any], next_command: str) -> None:
    theirs, ours = inspect.signature(stated).parameters, inspect.signature(stands).parameters
    if [(one.name, one.kind) for one in theirs.values()] != [(one.name, one.kind) for one in ours.values()]:
        raise own.error(
            f"{stated.__name__} takes other parameters",
            f"({', '.join(map(str, theirs))})",
            allowed=f"({', '.join(map(str, ours))})",
            line=stated.__code__.co_firstlineno,
            next=next_command,
        )


def _checked(own: OwnFile, stated: FunctionType, declared: Callable[..., Any], next_command: str) -> Callable[..., Any]:
    """Return the rule, which raises an error of the file if it fails or does not end, or for a wrong answer.

    An answer is wrong if it has another type than the one declared, or if the rule gives another one when it is asked
    again. The rule is asked again only the first times.
    """
    wanted = get_type_hints(declared)["return"]
    name, line = stated.__name__, stated.__code__.co_firstlineno
    returns = getattr(wanted, "__name__", str(wanted)) if get_origin(wanted) is None else str(wanted)
    words = {"allowed": f"an answer of the type {returns}", "next": next_command}
    twice = iter(range(_ASKED_TWICE))

    @wraps(stated)
    def checked(*args: Any, **kwargs: Any) -> Any:
        failure = None
        try:
            with limited_cpu(ENDS_S):
                answer = stated(*args, **kwargs)
                again = answer if next(twice, None) is None else stated(*args, **kwargs)
        except OwnCodeError:
            raise
        except (Exception, SystemExit) as error:
            if isinstance(error, SystemExit) and not own.raised(error):
                raise  # a signal ends the command
            failure = own.failure(f"{name} failed", error, **words)
        if failure is not None:
            raise failure  # without the context of a SystemExit, which is an interrupt
        if not _is_a(answer, wanted):
            raise own.error(f"{name} returned a wrong type", f"{answer!r}", line=line, **words)
        if again != answer:
            got = f"{answer!r}, then {again!r}"
            allowed = "a rule whose answer depends on its parameters alone"
            raise own.error(
                f"{name} answered the same question in two ways", got, line=line, **words | {"allowed": allowed}
            )
        return answer

    return checked


def _is_a(value: object, wanted: Any) -> bool:
    """Return whether a value is of a type; of what a set or tuple holds, only the number of items counts."""
    if get_origin(wanted) in (Union, UnionType):
        return any(_is_a(value, one) for one in get_args(wanted))
    if get_origin(wanted) is tuple and Ellipsis not in get_args(wanted):
        parts = get_args(wanted)
        return isinstance(value, tuple) and len(value) == len(parts) and all(map(_is_a, value, parts))
    return isinstance(value, get_origin(wanted) or wanted)
