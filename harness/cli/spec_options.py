"""The options that `ebbtide spec check` and `ebbtide spec find` share: variant, bounds, property, limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ebbtide.errors import UsageError
from harness.cli.command import Args, Command

if TYPE_CHECKING:
    from analysis.spec.explore.question import Answer
    from analysis.spec.explore.trace import Trace
    from analysis.spec.model.bounds import Bounds


def add_question(command: Command) -> None:
    """Declare what to search."""
    command.option("--variant", needed=True, metavar="NAME", help="the protocol variant, such as elr-43, or a release")
    command.option("--rf", type=int, default=3, metavar="N", help="replication factor (default: 3)")
    command.option("--min-isr", type=int, default=2, metavar="N", help="min.insync.replicas (default: 2)")
    command.option("--brokers", type=int, default=0, metavar="N", help="brokers, spares included (default: RF)")
    command.option("--records", type=int, default=1, metavar="N", help="records that are sent (default: 1)")
    command.option("--acks", default="all", choices=("all", "1", "mixed"), help="of the records (default: all)")
    for option, what in (
        ("power-losses", "brokers that lose power, and what they had not flushed"),
        ("kills", "brokers that are killed"),
        ("disks", "disks that are replaced, of any broker that is down"),
        ("disks-outside", "disks that are replaced, of brokers in neither ISR nor ELR"),
        ("stops", "clean stops"),
        ("admin", "administrative requests of the kinds in --admin-kinds"),
    ):
        command.option(f"--{option}", type=int, default=0, metavar="N", help=f"{what} (default: 0)")
    command.option("--admin-kinds", default="", metavar="KIND,...", help="default: all kinds if --admin is given")
    command.flag("--late-configs", help="the leader may learn of a new min.insync.replicas late")
    command.option("--property", default="committed", metavar="NAME", help="what must hold (default: committed)")
    command.option("--steps", type=int, metavar="N", help="how deep to search (default: to the end)")
    command.option("--max-states", type=int, metavar="N", help="distinct states (default: what memory holds)")
    command.option("--max-time", type=float, metavar="SECONDS", help="how long to search (default: to the end)")


def bounds_of(args: Args) -> Bounds:
    """The bounds that were typed."""
    from analysis.spec.model.bounds import ADMIN_KINDS, Bounds, check_bounds

    kinds = tuple(kind for kind in args.admin_kinds.split(",") if kind)
    bounds = Bounds(
        rf=args.rf,
        min_isr=args.min_isr,
        brokers=args.brokers,
        records=args.records,
        power_losses=args.power_losses,
        kills=args.kills,
        disks=args.disks,
        disks_outside=args.disks_outside,
        stops=args.stops,
        admin=args.admin,
        admin_kinds=kinds or tuple(kind for kind in ADMIN_KINDS if args.admin and kind not in ("move", "unclean")),
        late_configs=args.late_configs,
        acks=args.acks,
        steps=args.steps,
    )
    check_bounds(bounds)
    return bounds


def bounds_in_words(bounds: Bounds) -> str:
    """Everything that the search was allowed, so that "holds" is read as what it is."""
    from analysis.spec.model.bounds import BUDGETS

    parts = [f"{bounds.size} brokers", f"{bounds.records} records with acks={bounds.acks}"]
    allowed = [f"{name.replace('_', ' ')} {budget}" for name in BUDGETS if (budget := getattr(bounds, name))]
    parts += allowed or ["no fault at all (--power-losses N and the like allow some)"]
    if bounds.admin:
        parts.append(f"of the kinds {', '.join(bounds.admin_kinds)}")
    if bounds.late_configs:
        parts.append("configs may arrive late")
    if bounds.steps is not None:
        parts.append(f"at most {bounds.steps} steps")
    return ", ".join(parts)


def answer_to(args: Args, wanted: Callable[[Trace], bool] | None = None) -> Answer:
    """Search for what was typed; `wanted` may turn down counterexamples."""
    from analysis.spec.explore.question import ask, property_named, variant_named

    for option, limit in (("--max-states", args.max_states), ("--max-time", args.max_time)):
        if limit is not None and limit <= 0:
            raise UsageError("a search without room finds nothing", where=option, got=f"{limit:g}", allowed="above 0")
    return ask(
        variant_named(args.variant),
        bounds_of(args),
        property_named(args.property),
        max_states=args.max_states,
        max_time_s=args.max_time,
        wanted=wanted,
    )
