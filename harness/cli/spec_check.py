"""`ebbtide spec check`: checks a property in every state of a small configuration."""

from __future__ import annotations

from ebbtide.errors import ExitCode
from ebbtide.plurals import plural
from harness.cli.command import Args, Command
from harness.cli.spec_options import add_search_options, answer_to, bounds_in_words, bounds_of

_LIMITS = {"steps": "--steps", "states": "the number of states", "time": "--max-time"}


def command() -> Command:
    """Declare what to search."""
    command = Command(
        "Search every state that a small configuration can reach, and print the shortest path to a state that breaks "
        "the property. Exit code 0: the property holds within the bounds, 1: there is a counterexample, 2: a limit "
        "ended the search first."
    )
    add_search_options(command)
    return command


def run(args: Args) -> ExitCode:
    """Search, and print the result."""
    from analysis.spec.explore.question import property_named, variant_named
    from analysis.spec.explore.wording import lines
    from analysis.spec.variants import VARIANTS

    asked = property_named(args.property)
    bounds = bounds_of(args)
    answer = answer_to(args)
    found = answer.found
    print(f"property:  {asked.name}: {asked.says}  [{asked.clause}]")
    print(f"variant:   {args.variant}, RF {args.rf}, min.insync.replicas {args.min_isr}")
    print(f"bounds:    {bounds_in_words(bounds, recovers=VARIANTS[variant_named(args.variant)].recovers)}")
    print(
        f"searched:  {found.states:,} distinct states of {found.moves:,}, depth {found.depth}, "
        f"{found.elapsed_s:.1f} s, {found.states_per_s:,.0f} states/s"
    )
    print(f"hashes:    the probability that two states were confused is below {max(found.omission, 1e-18):.0e}")
    if answer.turned_down:
        print(f"orders:    {answer.turned_down:,} violations were ignored, because no fixed replica order allows them")
    if answer.holds:
        print("result:    holds within the bounds")
        return ExitCode.AS_PREDICTED
    if found.ending == "exhausted":
        print("result:    not decided: no fixed replica order allows the violations that were found")
        return ExitCode.INCONCLUSIVE
    if answer.trace is None:
        print(
            f"result:    not exhausted: {_LIMITS[found.ending]} ended the search, "
            f"no violation within {plural(found.depth, 'step')}"
        )
        return ExitCode.INCONCLUSIVE
    print(f"result:    violated after {plural(len(answer.trace.steps), 'step')}; no shorter path exists")
    if asked.name == "committed" and bounds.power_losses >= args.min_isr:
        print("note:      KIP-966 tolerates min.insync.replicas - 1 replicas without their log at once. A replica")
        print(
            f"           that lost power counts until it has caught up. --power-losses {args.min_isr - 1} is tolerated"
        )
    print()
    for line in lines(answer.trace, VARIANTS[variant_named(args.variant)]):
        print(line)
    return ExitCode.CONTRADICTED
