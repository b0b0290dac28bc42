"""`ebbtide scenarios from FILE...`: prints a scenario with the settings of somebody's own files."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import fill

from ebbtide.errors import ExitCode
from ebbtide.streams import print_verbatim
from harness.cli.command import Args, Command
from harness.cli.progress import shown_progress

_NAME = re.compile(r"[^a-z0-9]+")


def command() -> Command:
    """Declare the files."""
    command = Command(
        "Print a scenario with the settings of your own files, scaled to this machine. It has the gravest event that "
        "`ebbtide advise` finds, and predicts what the advice says. Comments at its top say what was dropped, and why.",
        epilog="example:\n  ebbtide scenarios from compose.yaml > mine.toml && ebbtide run mine.toml\n",
    )
    command.argument(
        "files", many=True, metavar="FILE", type=Path, help="files of one cluster, as `ebbtide advise` takes them"
    )
    command.option(
        "--assume", metavar="NAME=VALUE,...", help="a release or feature level that the files do not say: kafka=4.3.1"
    )
    command.option("--topics", default="*", metavar="PATTERN", help="only topics whose name fits, such as 'orders*'")
    return command


def run(args: Args) -> ExitCode:
    """Print the scenario. Raises `UsageError`."""
    from analysis.advise.advice import advise, unsaid_notes
    from analysis.advise.assumption import parse_assumption
    from analysis.advise.from_files import scenario_from
    from ebbtide.scenario.write import COLUMNS
    from ebbtide.snapshot.described import DROPPED, FileFacts
    from ebbtide.snapshot.model import read_snapshot
    from ebbtide.snapshot.text_files import describe_files, is_of_text, snapshot_of

    assumed = None if args.assume is None else parse_assumption(args.assume)
    if any(map(is_of_text, args.files)) or len(args.files) > 1:
        facts = describe_files(args.files, None if assumed is None else assumed.values)
        snapshot = snapshot_of(facts, args.files)
    else:
        facts, snapshot = FileFacts(), read_snapshot(args.files[0])
    with shown_progress() as progress:
        advice = advise(snapshot, pattern=args.topics, assumed=assumed, progress=progress)
    name = f"from-{_NAME.sub('-', args.files[0].stem.lower()).strip('-') or 'files'}"
    made = scenario_from(advice, facts, name=name)
    head = [f"Made of {snapshot.cluster_id} by `ebbtide scenarios from`."]
    notes = (*snapshot.assumed, *unsaid_notes(snapshot, advice.release, assumed))
    head += [one if one.startswith(DROPPED) else f"Noted: {one}" for one in notes]
    head += [f"{DROPPED}{one}" for one in made.dropped]
    comments = [
        fill(one, COLUMNS, initial_indent="# ", subsequent_indent="#   ", break_on_hyphens=False) for one in head
    ]
    print_verbatim("\n".join([*comments, "", made.text.rstrip("\n")]))
    return ExitCode.AS_PREDICTED
