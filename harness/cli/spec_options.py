"""The options of `ebbtide spec check` and `find`.

They set the variant, the bounds, the property and the limits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ebbtide.errors import UsageError
from harness.cli.command import Args, Command

if TYPE_CHECKING:
    from analysis.spec.explore.question import Answer
    from analysis.spec.explore.trace import Trace
    from analysis.spec.model.bounds import Bounds


def add_search_options(command: Command) -> None:
    """Declare the variant, the bounds, the property and the limits of a search."""
    command.option("--variant", needed=True, metavar="NAME", help="the protocol variant, such as elr-43, or a release")
    command.option("--rf", type=int, default=3, metavar="N", help="replication factor (default: 3)")
    command.option("--min-isr", type=int, default=2, metavar="N", help="min.insync.replicas (default: 2)")
    command.option("--brokers", type=int, metavar="N", help="brokers, including spares (default: RF)")
    command.option("--records", type=int, default=1, metavar="N", help="records to send (default: 1)")
    command.option("--acks", default="all", choices=("all", "1", "mixed"), help="acks of the records (default: all)")
    for option, what in (
        ("power-losses", "how many brokers lose power, and with it what they had not flushed"),
        ("kills", "how many brokers are killed"),
        ("disks", "how many disks of stopped brokers are replaced"),
        ("disks-outside", "how many disks of brokers in neither ISR nor ELR are replaced"),
        ("stops", "how many brokers are stopped cleanly"),
        ("admin", "how many administrative requests there are, of the kinds in --admin-kinds"),
    ):
        command.option(f"--{option}", type=int, default=0, metavar="N", help=f"{what} (default: 0)")
    command.option(
        "--admin-kinds",
        default="",
        metavar="KIND,...",
        help="kinds of administrative requests (default: all if --admin is given)",
    )
    command.flag("--late-configs", help="let the leader learn late of a new min.insync.replicas")
    command.option(
        "--unclean-recovery",
        default="balanced",
        choices=("balanced", "proactive", "manual"),
        help="KIP-966's unclean.leader.election.enable, for kip966 and kip966-last-known (default: balanced)",
    )
    command.flag(
        "--no-recovery-manager", help="set KIP-966's unclean.recovery.manager.enabled to false (default: true)"
    )
    command.option(
        "--property", default="committed", metavar="NAME", help="the property that must hold (default: committed)"
    )
    command.option("--steps", type=int, metavar="N", help="the most steps of a path (default: no limit)")
    command.option(
        "--max-states", type=int, metavar="N", help="the most distinct states (default: as many as fit into memory)"
    )
    command.option("--max-time", type=float, metavar="SECONDS", help="the longest time to search (default: no limit)")


def bounds_of(args: Args) -> Bounds:
    """Return the typed bounds."""
    from analysis.spec.model.bounds import ADMIN_KINDS, Bounds, check_bounds

    if args.brokers is not None and args.brokers < 1:
        raise UsageError("out of range", where="--brokers", got=str(args.brokers), allowed="1 or more")
    kinds = tuple(kind for kind in args.admin_kinds.split(",") if kind)
    bounds = Bounds(
        rf=args.rf,
        min_isr=args.min_isr,
        brokers=args.brokers or 0,
        records=args.records,
        power_losses=args.power_losses,
        kills=args.kills,
        disks=args.disks,
        disks_outside=args.disks_outside,
        stops=args.stops,
        admin=args.admin,
        admin_kinds=kinds
        or tuple(kind for kind in ADMIN_KINDS if args.admin and kind not in ("move", "unclean", "designate")),
        late_configs=args.late_configs,
        unclean_recovery=args.unclean_recovery,
        recovery_manager=not args.no_recovery_manager,
        acks=args.acks,
        steps=args.steps,
    )
    check_bounds(bounds)
    return bounds


def answer_to(args: Args, wanted: Callable[[Trace], bool] | None = None) -> Answer:
    """Search as typed; `wanted` may reject counterexamples."""
    from analysis.spec.explore.question import ask, property_named, variant_named

    for option, limit in (("--max-states", args.max_states), ("--max-time", args.max_time)):
        if limit is not None and limit <= 0:
            raise UsageError("a search limit must be positive", where=option, got=f"{limit:g}", allowed="above 0")
    return ask(
        variant_named(args.variant),
        bounds_of(args),
        property_named(args.property),
        max_states=args.max_states,
        max_time_s=args.max_time,
        wanted=wanted,
    )
