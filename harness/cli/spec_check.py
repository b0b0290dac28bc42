"""`ebbtide spec check`: checks a property in every state of a small configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ebbtide.errors import ExitCode
from ebbtide.named_files import check_named_file
from ebbtide.shown_text import plural
from harness.cli import options
from harness.cli.command import Args, Command
from harness.cli.output import print_json
from harness.cli.spec_options import BOUNDS_HELP, add_search_options, answer_to, bounds_of

if TYPE_CHECKING:
    from analysis.spec.explore.properties import Property
    from analysis.spec.explore.question import Answer

_LIMITS = {"steps": "the bound of steps", "states": "the number of states", "time": "--budget"}


def command() -> Command:
    """Declare what to search."""
    command = Command(
        "Search every state that a small configuration can reach, and print the shortest path to a state that breaks "
        "the property.",
        codes={0: "the property holds within the bounds", 1: "a counterexample", 2: "a limit ended the search"},
        epilog=BOUNDS_HELP,
    )
    add_search_options(command)
    options.add_html_option(command, "a counterexample")
    options.add_json_option(command)
    return command


def run(args: Args) -> ExitCode:
    """Search, print the result, and draw a counterexample if asked to."""
    if args.html is not None:
        check_named_file(args.html, "page", "--html")
    from analysis.spec.explore.question import property_named, variant_named
    from harness.cli.spec_outputs import EXIT_OF_RESULT, result_of

    asked = property_named(args.property)
    variant = variant_named(args.variant)
    if not args.json:
        _print_question(args, variant, asked)
    answer = answer_to(args)
    is_drawn = args.html is not None and answer.trace is not None
    if args.html is not None and answer.trace is not None:
        from analysis.counterexample.page import render_counterexample
        from analysis.report.pages import write_page

        write_page(args.html, render_counterexample(variant, bounds_of(args), asked, answer, answer.trace))
    if args.json:
        from harness.cli.spec_outputs import check_output

        page = str(args.html) if is_drawn else None
        print_json(check_output(variant, bounds_of(args), asked, answer, page))
    else:
        _print_answer(args, variant, asked, answer)
        if is_drawn:
            print(f"\npage:      {args.html}")
        elif args.html is not None:
            print(f"\npage:      none: there is no counterexample to draw; {args.html} was not written")
    return EXIT_OF_RESULT[result_of(answer)]


def _print_question(args: Args, variant: str, asked: Property) -> None:
    """Print what is searched; the search may take minutes."""
    from analysis.spec.model.bounds import bounds_in_words
    from analysis.spec.variants import VARIANTS

    bounds = bounds_of(args)
    print(f"property:  {asked.name}: {asked.says}  [{asked.clause}]")
    print(f"variant:   {args.variant}, RF {bounds.rf}, min.insync.replicas {bounds.min_isr}")
    print(f"bounds:    {bounds_in_words(bounds, recovers=VARIANTS[variant].recovers)}", flush=True)


def _print_answer(args: Args, variant: str, asked: Property, answer: Answer) -> None:
    """Print what was found."""
    from analysis.spec.explore.wording import lines, tolerance_note
    from analysis.spec.variants import VARIANTS

    bounds = bounds_of(args)
    found = answer.found
    print(
        f"searched:  {found.states:,} distinct states of {found.moves:,}, all within {plural(found.depth, 'step')}, "
        f"{found.elapsed_s:.1f} s, {found.states_per_s:,.0f} states/s"
    )
    print(f"hashes:    the probability that two states were confused is below {max(found.omission, 1e-18):.0e}")
    if answer.turned_down:
        print(f"orders:    {answer.turned_down:,} violations were ignored, because no fixed replica order allows them")
    if answer.holds:
        print("result:    holds within the bounds")
        return
    if found.ending == "exhausted":
        print("result:    not decided: no fixed replica order allows the violations that were found")
        return
    if answer.trace is None:
        print(
            f"result:    not exhausted: {_LIMITS[found.ending]} ended the search, "
            f"no violation within {plural(found.depth, 'step')}"
        )
        return
    print(f"result:    violated after {plural(len(answer.trace.steps), 'step')}; no shorter path exists")
    if note := tolerance_note(asked.name, bounds):
        print(f"note:      {note}")
    print()
    for line in lines(answer.trace, VARIANTS[variant]):
        print(line)
