"""The options of `ebbtide spec check` and `find`.

They set the variant, the bounds, the property and the limits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ebbtide.errors import COMMAND_LINE, EbbtideError, Problems, UsageError
from ebbtide.suggestions import allowed_words, did_you_mean
from harness.cli import options
from harness.cli.command import Args, Command
from harness.cli.option_values import split_list
from harness.cli.parameters import duration_s_of

if TYPE_CHECKING:
    from analysis.spec.explore.question import Answer
    from analysis.spec.explore.trace import Trace
    from analysis.spec.model.bounds import Bounds


class _Bound(NamedTuple):
    """What a bound means, and its values."""

    says: str
    allowed: str = "a whole number"


_BOUNDS = {
    "rf": _Bound("replication factor (default 3)"),
    "min-isr": _Bound("min.insync.replicas (default 2)"),
    "brokers": _Bound("brokers, including spares (default: RF)"),
    "records": _Bound("records to send (default 1)"),
    "acks": _Bound("of the records (default all)", "all, 1 or mixed"),
    "power-losses": _Bound("brokers that lose power and what they had not flushed"),
    "kills": _Bound("brokers that are killed"),
    "disks": _Bound("disks of stopped brokers that are replaced"),
    "disks-outside": _Bound("disks of brokers in neither ISR nor ELR that are replaced"),
    "stops": _Bound("brokers that are stopped cleanly"),
    "admin": _Bound("administrative requests"),
    "admin-kinds": _Bound("their kinds (default: all but move)", "kinds with + between them, such as reassign+feature"),
    "late-configs": _Bound("the leader learns late of a new min.insync.replicas", "true or false"),
    "unclean-recovery": _Bound(
        "kip966: unclean.leader.election.enable (default balanced)", "balanced, proactive or manual"
    ),
    "recovery-manager": _Bound("KIP-966's unclean.recovery.manager.enabled (default true)", "true or false"),
    "steps": _Bound("steps of a path (default: no limit)"),
    "states": _Bound("distinct states (default: as many as fit into memory)"),
}
BOUNDS_HELP = "bounds:\n" + "".join(f"  {name:<17} {bound.says}\n" for name, bound in _BOUNDS.items())
"""What the help of both commands ends with."""


def add_search_options(command: Command) -> None:
    """Declare the variant, the bounds, the property and the limits of a search."""
    command.option(
        "--variant",
        needed=True,
        metavar="NAME",
        help="the protocol variant, such as elr-43, or a release. A Python file with a variant of yours runs as you "
        "(docs/own-kafka.md)",
    )
    command.option(
        "--bounds",
        repeated=True,
        metavar="NAME=VALUE,...",
        help="the configuration, and how much may happen to it, such as rf=3,min-isr=2,power-losses=1. By default "
        "nothing happens to 3 brokers",
    )
    command.option(
        "--property",
        default="committed",
        metavar="NAME",
        help="the property that must hold, or a Python file with one of yours (default: committed)",
    )
    options.add_budget_option(command, "the longest time to search", None)


def bounds_of(args: Args) -> Bounds:
    """Return --bounds. Raises `UsageError`, or `Problems` with every wrong bound."""
    from analysis.spec.model.bounds import ADMIN_KINDS, Bounds, check_bounds

    typed = _typed_bounds(args.bounds)
    typed.pop("states", None)
    if typed.get("admin") and "admin_kinds" not in typed:
        typed["admin_kinds"] = [kind for kind in ADMIN_KINDS if kind not in ("move", "unclean", "designate")]
    bounds = msgspec.convert(typed, Bounds)
    check_bounds(bounds, is_sized="brokers" in typed)
    return bounds


def _states_of(args: Args) -> int | None:
    """Return the most states of the search; None: as many as fit into memory."""
    states: int | None = _typed_bounds(args.bounds).get("states")
    if states is not None and states < 1:
        raise UsageError("out of bounds", where="--bounds states", got=str(states), allowed="1 or more")
    return states


def _typed_bounds(texts: Sequence[str]) -> dict[str, Any]:
    """Return the bounds by the fields of `Bounds`, and `states`."""
    from analysis.spec.model.bounds import ADMIN_KINDS, Bounds

    types = {field.name: field.type for field in msgspec.structs.fields(Bounds)} | {"states": int}
    typed: dict[str, Any] = {}
    problems: list[EbbtideError] = []
    for word in (word for text in texts for word in split_list(text, "--bounds")):
        name, equals, value = word.partition("=")
        field = name.replace("-", "_")
        if name not in _BOUNDS:
            what = f"unknown bound{did_you_mean(name, _BOUNDS)}"
            problems.append(UsageError(what, where="--bounds", got=name, allowed=allowed_words(name, list(_BOUNDS))))
        elif field == "admin_kinds":
            typed[field] = value.split("+")
            if unknown := [kind for kind in value.split("+") if kind not in ADMIN_KINDS]:
                what = f"unknown kind of request{did_you_mean(unknown[0], ADMIN_KINDS)}"
                problems.append(
                    UsageError(what, where=f"--bounds {name}", got=unknown[0], allowed=", ".join(ADMIN_KINDS))
                )
        else:
            try:
                typed[field] = msgspec.convert(value, types[field], strict=False)
            except msgspec.ValidationError:
                got = repr(value) if equals else "no value"
                problems.append(
                    UsageError("not a bound", where=f"--bounds {name}", got=got, allowed=_BOUNDS[name].allowed)
                )
    if problems:
        raise problems[0] if len(problems) == 1 else Problems(COMMAND_LINE, problems)
    return typed


def answer_to(args: Args, wanted: Callable[[Trace], bool] | None = None) -> Answer:
    """Search as typed; `wanted` may reject counterexamples."""
    from analysis.spec.explore.question import ask, property_named, variant_named

    return ask(
        variant_named(args.variant),
        bounds_of(args),
        property_named(args.property),
        max_states=_states_of(args),
        max_time_s=None if args.budget is None else duration_s_of("--budget", args.budget),
        wanted=wanted,
    )
