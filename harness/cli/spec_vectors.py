"""`ebbtide spec vectors FILE.jsonl`: checks the spec with conformance vectors."""

from __future__ import annotations

import json
from pathlib import Path

from ebbtide.errors import ExitCode, UsageError
from harness.cli.command import Args, Command
from harness.cli.options import add_json_option, add_release_option
from harness.cli.output import print_json, print_table


def command() -> Command:
    """Declare the file and the release."""
    command = Command(
        "Compare the specification with conformance vectors, for each layer and Kafka release, and print every "
        "difference. Exit code 0: no difference, 1: at least one, 4: the file is malformed."
    )
    command.argument("file", type=Path, metavar="FILE.jsonl", help="the file with one vector a line")
    add_release_option(command, " to compare, such as 4.3.1 (default: all; with --variant, the newest that runs it)")
    command.option(
        "--variant",
        metavar="NAME",
        help="compare this variant, such as elr-41, with what the release does. A Python file with a variant of yours "
        "runs as you (docs/own-variant.md)",
    )
    add_json_option(command)
    return command


def run(args: Args) -> ExitCode:
    """Compare, print the table, and print every difference."""
    from analysis.spec.explore.question import variant_named
    from analysis.spec.variants import VARIANTS, release_of
    from analysis.spec.vector_file import load
    from analysis.spec.vectors import agreement, releases_of, version_key

    vectors = load(args.file)
    variant = variant_named(args.variant) if args.variant is not None else None
    release = args.kafka if variant is None or args.kafka is not None else release_of(variant)
    tallies, differences = agreement(vectors, release, VARIANTS[variant] if variant is not None else None)
    if not tallies:
        known = {release for vector in vectors for release in releases_of(vector)}
        raise UsageError(
            "no vector is about this release",
            where=str(args.file),
            got=release,
            allowed=", ".join(sorted(known, key=version_key)),
        )
    code = ExitCode.CONTRADICTED if differences else ExitCode.AS_PREDICTED
    count = len({vector.id for vector in vectors})
    if args.json:
        from harness.cli.spec_outputs import SpecVectorsOutput

        print_json(SpecVectorsOutput(vectors=count, tallies=tuple(tallies), differences=tuple(differences)))
        return code
    print_table(
        ("layer", "kafka", "variant", "vectors", "agree"),
        [(tally.layer, tally.kafka, tally.variant, str(tally.vectors), str(tally.agree)) for tally in tallies],
    )
    for found in differences:
        print(f"\n{found.vector} ({found.layer}, {found.event}) on Kafka {found.kafka}: {found.field}")
        print(f"  expected: {json.dumps(found.expected)}")
        print(f"  got:      {json.dumps(found.got)}")
    total, agree = sum(tally.vectors for tally in tallies), sum(tally.agree for tally in tallies)
    print(f"\n{count} vectors, {agree} of {total} comparisons agree")
    return code
