"""`ebbtide spec check`: whether a property holds in every state that a small configuration can reach."""

from __future__ import annotations

from ebbtide.errors import ExitCode
from harness.cli.command import Args, Command
from harness.cli.spec_options import add_question, answer_to, bounds_in_words, bounds_of

_LIMITS = {"steps": "--steps", "states": "the number of states", "time": "--max-time"}


def command() -> Command:
    """Declare the question."""
    command = Command(
        "Search every state that a small configuration can reach, and show the shortest way to one that breaks the "
        "property. Exit code 0: the property holds within the bounds, 1: a counterexample, 2: not exhausted, a limit "
        "ended the search first."
    )
    add_question(command)
    return command


def run(args: Args) -> ExitCode:
    """Search and say how it ended."""
    from analysis.spec.explore.question import property_named, variant_named
    from analysis.spec.explore.wording import lines
    from analysis.spec.variants import VARIANTS

    asked = property_named(args.property)
    bounds = bounds_of(args)
    answer = answer_to(args)
    found = answer.found
    print(f"property:  {asked.name}: {asked.says}  [{asked.clause}]")
    print(f"variant:   {args.variant}, RF {args.rf}, min.insync.replicas {args.min_isr}")
    print(f"bounds:    {bounds_in_words(bounds)}")
    print(
        f"searched:  {found.states:,} distinct states of {found.moves:,}, depth {found.depth}, "
        f"{found.elapsed_s:.1f} s, {found.states_per_s:,.0f} states/s"
    )
    print(f"hashes:    the chance that a state was taken for another is below {max(found.omission, 1e-18):.0e}")
    if answer.turned_down:
        print(f"orders:    {answer.turned_down:,} violations that no fixed replica order allows were passed over")
    if answer.holds:
        print("result:    holds within the bounds")
        return ExitCode.AS_PREDICTED
    if found.ending == "exhausted":
        print("result:    not decided: only violations whose elections no fixed replica order allows were found")
        return ExitCode.INCONCLUSIVE
    if answer.trace is None:
        print(
            f"result:    not exhausted: {_LIMITS[found.ending]} ended the search, "
            f"no violation within {found.depth} steps"
        )
        return ExitCode.INCONCLUSIVE
    print(f"result:    violated after {len(answer.trace.steps)} steps, and no shorter way exists")
    if asked.name == "committed" and bounds.power_losses >= args.min_isr:
        print("note:      KIP-966 tolerates min.insync.replicas - 1 replicas without their log at once; one that lost")
        print(
            f"           power counts until it has caught up. Of --power-losses {args.min_isr - 1} it promises no loss"
        )
    print()
    for line in lines(answer.trace, VARIANTS[variant_named(args.variant)]):
        print(line)
    return ExitCode.CONTRADICTED
