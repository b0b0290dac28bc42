"""`ebbtide spec vectors FILE.jsonl`: checks the spec with conformance vectors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ebbtide.errors import ExitCode, UsageError
from ebbtide.shown_text import plural
from harness.cli import options
from harness.cli.command import Args, Command
from harness.cli.output import print_json, print_table

if TYPE_CHECKING:
    from analysis.spec.vector_file import Vector
    from analysis.spec.vectors import Difference


def command() -> Command:
    """Declare the file and the release."""
    command = Command(
        "Compare the specification with conformance vectors, for each layer and Kafka release. Print every "
        "field that differs: what it was before the event, and after it on Kafka and in the variant.",
        codes={0: "no difference", 1: "at least one difference"},
    )
    command.argument("file", type=Path, metavar="FILE.jsonl", help="the file with one vector a line")
    says = " (default: all; with --variant, the newest that runs it)"
    options.add_release_option(command, says, takes_builds=False)
    command.option(
        "--variant",
        metavar="NAME",
        help="compare this variant, such as elr-41, with what the release does. A Python file with a variant of yours "
        "runs as you (docs/own-kafka.md)",
    )
    options.add_json_option(command)
    return command


def run(args: Args) -> ExitCode:
    """Compare, print the table, and print every difference."""
    from analysis.spec.explore.question import variant_named
    from analysis.spec.variants import VARIANTS, release_of
    from analysis.spec.vector_file import load
    from analysis.spec.vectors import agreement, releases_of, version_key

    vectors = load(args.file)
    variant = variant_named(args.variant) if args.variant is not None else None
    release = args.release if variant is None or args.release is not None else release_of(variant)
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
    shown = {tally.kafka: tally.variant.replace("_", "-") for tally in tallies}
    print_table(
        ("layer", "kafka", "variant", "vectors", "agree"),
        [(tally.layer, tally.kafka, shown[tally.kafka], str(tally.vectors), str(tally.agree)) for tally in tallies],
    )
    by_id = {vector.id: vector for vector in vectors}
    for (name, kafka), found in groupby(differences, key=lambda one: (one.vector, one.kafka)):
        _print_vector(by_id[name], kafka, shown[kafka], [*found])
    total, agree = sum(tally.vectors for tally in tallies), sum(tally.agree for tally in tallies)
    print(f"\n{count} vectors, {agree} of {total} comparisons agree")
    if different := list(dict.fromkeys(one.vector for one in differences)):
        print(f"{plural(len(different), 'vector')} {'differs' if len(different) == 1 else 'differ'}:")
        print("\n".join(f"  {name}" for name in different))
    return code


def _print_vector(vector: Vector, kafka: str, variant: str, found: Sequence[Difference]) -> None:
    """Print the fields in which a variant differs from a release after one event, and what they were before it."""
    before = msgspec.to_builtins(vector.before) if hasattr(vector, "before") else {}
    print(f"\n{vector.id}: {found[0].event} ({found[0].layer})")
    print_table(
        ("field", "before", f"Kafka {kafka}", variant),
        [
            (
                one.field,
                json.dumps(before[name]) if (name := one.field.removeprefix("after.")) in before else "-",
                json.dumps(one.expected),
                json.dumps(one.got),
            )
            for one in found
        ],
        whole=1,
    )
