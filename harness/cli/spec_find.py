"""`ebbtide spec find`: writes a counterexample as a scenario for real Kafka."""

from __future__ import annotations

import shlex
from functools import partial

from ebbtide.errors import COMMAND_LINE, ExitCode, Problems, UsageError
from ebbtide.named_files import check_named_file, refuse_existing, write_named_file
from ebbtide.releases.known_releases import require_release
from ebbtide.shown_text import plural
from harness.cli import options
from harness.cli.command import Args, Command
from harness.cli.option_values import split_list
from harness.cli.output import print_json
from harness.cli.spec_options import BOUNDS_HELP, add_search_options, answer_to, bounds_of


def command() -> Command:
    """Declare what to search, and the file to write."""
    command = Command(
        "Search as `ebbtide spec check` does, and write the counterexample as a scenario file. The file has a "
        "prediction for each release, from the model of its protocol variant. If --variant names a file, its "
        "prediction is for newer builds.",
        codes={0: "the file is written", 1: "the property holds within the bounds", 2: "a limit ended the search"},
        epilog=BOUNDS_HELP,
    )
    add_search_options(command)
    options.add_out_option(command, "the scenario file to write", needed=True)
    options.add_releases_option(
        command, "that of the variant", ", on which the scenario runs by default", takes_builds=False
    )
    options.add_json_option(command)
    return command


def run(args: Args) -> ExitCode:
    """Search, write the file, and print the next command."""
    from analysis.spec.explore.question import variant_named
    from analysis.spec.generate import scenario_of
    from analysis.spec.generate_schedule import PlayabilityFilter
    from analysis.spec.variants import IN_NO_RELEASE, base_of, release_of
    from ebbtide.scenario.model import MAX_BROKERS
    from ebbtide.scenario.parse import parse
    from ebbtide.scenario.references import put_at
    from ebbtide.scenario.safety import check_name
    from ebbtide.scenario.write import brief_text_of
    from harness.cli.spec_outputs import SpecFindOutput

    variant = variant_named(args.variant)
    if base_of(variant) in IN_NO_RELEASE:
        raise UsageError(
            "no release runs this variant", got=args.variant, next=f"ebbtide spec check --variant {args.variant}"
        )
    releases = tuple(split_list(args.releases or "", "--kafka")) or (release_of(variant),)
    problems = [*put_at("--out", partial(check_name, args.out.stem))]
    for release in releases:
        problems += put_at("--kafka", partial(require_release, release))
    if problems:
        raise Problems(COMMAND_LINE, [*problems])
    check_named_file(args.out, "scenario", "--out")
    refuse_existing(args.out)
    bounds = bounds_of(args)
    if bounds.size > MAX_BROKERS:
        raise UsageError(
            "a scenario cannot have so many brokers",
            got=str(bounds.size),
            allowed=f"1 to {MAX_BROKERS}",
            next="ebbtide spec check    (searches without writing a scenario)",
        )
    answer = answer_to(args, PlayabilityFilter(variant, bounds))
    if answer.trace is None:
        why = (
            "the property holds within the bounds"
            if answer.holds
            else "no counterexample that the steps of a scenario can cause"
        )
        if args.json:
            print_json(SpecFindOutput(why=why, states=answer.found.states, ignored=answer.turned_down))
        else:
            print(f"nothing written: {why}; {answer.found.states:,} states, {answer.turned_down:,} violations ignored")
        return ExitCode.CONTRADICTED if answer.holds else ExitCode.INCONCLUSIVE
    scenario = scenario_of(args.out.stem, variant, bounds, answer.trace, releases)
    text = brief_text_of(scenario)
    parse(text, file=str(args.out), to_run=True)
    write_named_file(args.out, text.encode(), "scenario")
    if args.json:
        found = SpecFindOutput(
            file=str(args.out),
            states=answer.found.states,
            ignored=answer.turned_down,
            kafka=releases,
            steps=len(scenario.steps),
            counterexample_steps=len(answer.trace.steps),
            predictions=tuple(scenario.predictions),
        )
        print_json(found)
        return ExitCode.AS_PREDICTED
    print(f"{args.out}: {plural(len(scenario.steps), 'step')}, from a counterexample of {len(answer.trace.steps)}")
    for prediction in scenario.predictions:
        print(f"  {prediction.kafka:<14} committed loss: {prediction.loss.committed:<5} {prediction.clause}")
    kafka = releases if base_of(variant) == variant else (*releases, "YOUR-BUILD")
    print(f"\nnext: ebbtide run {shlex.quote(str(args.out))} --kafka {','.join(kafka)}")
    return ExitCode.AS_PREDICTED
