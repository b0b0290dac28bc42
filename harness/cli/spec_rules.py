"""`ebbtide spec rules NAME`: prints the effective rules of a protocol variant."""

from __future__ import annotations

import sys

from ebbtide.errors import ExitCode
from ebbtide.streams import print_verbatim
from harness.cli import options
from harness.cli.command import Args, Command
from harness.cli.output import print_json


def command() -> Command:
    """Declare the variant and the event."""
    command = Command(
        "Print the rules of a protocol variant as one Python module: first the records, then each event, then the "
        "rules that events call. Each event has its KIP clause. A comment says with which variant a rule began."
    )
    command.argument(
        "variant", metavar="NAME", help="the protocol variant, such as elr-43, a Kafka release, or a FILE.py of yours"
    )
    command.argument(
        "event",
        needed=False,
        metavar="EVENT",
        help="only this event, or rule, and the rules that it calls, such as fence or may_complete",
    )
    options.add_json_option(command)
    return command


def run(args: Args) -> ExitCode:
    """Print the rules."""
    from analysis.spec.effective_rules import text_of
    from analysis.spec.explore.question import variant_named
    from analysis.spec.variants import VARIANTS

    variant = variant_named(args.variant, where="NAME")
    code = text_of(VARIANTS[variant], args.event)
    if args.json:
        from harness.cli.spec_outputs import SpecRulesOutput

        print_json(SpecRulesOutput(variant=variant.replace("_", "-"), event=args.event, code=code))
    else:
        # A person reads lines that fit; a file or another program gets Python.
        (print if sys.stdout.isatty() else print_verbatim)(code.rstrip("\n"))
    return ExitCode.AS_PREDICTED
