"""`ebbtide advise`: says what somebody's cluster could lose. It only reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ebbtide.errors import ExitCode, UsageError
from ebbtide.named_files import check_named_file
from harness.cli import options
from harness.cli.advise_table import check_folder, write_scenarios
from harness.cli.command import Args, Command
from harness.cli.option_values import addresses_of
from harness.cli.output import print_json
from harness.cli.progress import shown_progress

if TYPE_CHECKING:
    from analysis.advise.assumption import Assumption
    from ebbtide.snapshot.model import ClusterSnapshot

_EXAMPLES = """examples:
  ebbtide advise --bootstrap broker1:9092,broker2:9092
  ebbtide advise --bootstrap broker1:9093 \\
    --command-config client.properties --save cluster.json
  ebbtide advise --bootstrap broker1:9092 --down 3
  ebbtide advise before.json after.json
  ebbtide advise compose.yaml
  ebbtide advise cluster.json --topics 'orders*' \\
    --assume kafka=4.3.1,min.insync.replicas=2

no cluster of your own?
  ebbtide cluster up --kafka 4.3.1 --publish 19092
  ebbtide cluster topic t
  ebbtide advise --bootstrap 127.0.0.1:19092
  ebbtide cluster down
  with TLS and SASL: the commands in the head of compose/foreign.yaml
"""


def command() -> Command:
    """Declare the verb's arguments."""
    command = Command(
        "Say what a cluster of yours could lose: which events lose acked records, by acks, for each group of alike "
        "topics. Ebbtide reads the cluster over the network and writes nothing to it. The answers are from the "
        "protocol's model.",
        epilog=_EXAMPLES,
        codes={0: "done; with --down: safe", 1: "with --down: not safe", 2: "with --down: unknown"},
    )
    command.argument(
        "snapshots",
        type=Path,
        needed=False,
        many=True,
        metavar="FILE",
        help="instead of --bootstrap, a file of --save; of two, what changed. Or together: what kafka-topics, "
        "kafka-configs and kafka-features describe, server.properties, a compose file, Strimzi resources.",
    )
    options.add_connection_options(command)
    command.option("--topics", default="*", metavar="PATTERN", help="only topics whose name fits, such as 'orders*'")
    command.option(
        "--assume",
        metavar="NAME=VALUE,...",
        help="also show the advice after a change, such as kafka=4.3.1,min.insync.replicas=2, and its price. "
        "A release or feature level that files do not say is today's.",
    )
    command.option(
        "--down",
        metavar="BROKERS",
        help="only say whether these brokers may be taken down now, such as 3, or 3,4, or rack=a",
    )
    command.option("--save", type=Path, metavar="FILE", help="write what was read, for a later `ebbtide advise FILE`")
    command.flag("--all", help="print each event for each group of alike topics, and not only what fits one screen")
    options.add_json_option(command)
    options.add_html_option(command, "the advice")
    command.option(
        "--scenario",
        type=Path,
        metavar="FOLDER",
        help="also write a scenario for each line, which `ebbtide run` shows on real Kafka here",
    )
    return command


def run(args: Args) -> ExitCode:
    """Read the cluster or the file, and print the advice. Raises `UsageError`."""
    from analysis.advise.advice import advise
    from analysis.advise.assumption import parse_assumption
    from ebbtide.snapshot.model import write_snapshot

    compares = _check_question(args)
    assumed = None if args.assume is None else parse_assumption(args.assume)
    for path, option in ((args.save, "--save"), (args.html, "--html")):
        if path is not None:
            check_named_file(path, "file", option)
    if args.scenario is not None:
        check_folder(args.scenario)
    snapshot = _snapshot(args, assumed)
    if args.save is not None:
        write_snapshot(args.save, snapshot)
    if args.down is not None:
        return _say_down(args, snapshot, assumed)
    if compares:
        return _say_changes(args, snapshot, assumed)
    with shown_progress() as progress:
        advice = advise(snapshot, pattern=args.topics, assumed=assumed, progress=progress)
    if args.html is not None:
        from analysis.advise.page import render_advice
        from analysis.report.pages import write_page

        write_page(args.html, render_advice(advice))
    written = [] if args.scenario is None else write_scenarios(args.scenario, advice)
    if args.json:
        from analysis.advise.advice_json import advice_output

        print_json(advice_output(advice))
        return ExitCode.AS_PREDICTED
    if args.all:
        from harness.cli.advise_table import print_advice

        print_advice(advice)
    else:
        from harness.cli.advise_screen import print_screen

        print_screen(advice)
    for said in written:
        print(said)
    for path, what in ((args.save, "snapshot"), (args.html, "page")):
        if path is not None:
            print(f"{what}: {path}")
    return ExitCode.AS_PREDICTED


def _are_texts(args: Args) -> bool:
    """Whether the files are Kafka's own, which together describe one cluster."""
    from ebbtide.snapshot.text_files import is_of_text

    return any(is_of_text(path) for path in args.snapshots)


def _check_question(args: Args) -> bool:
    """Return whether two snapshots are compared. Raises `UsageError` for options that do not fit the question."""
    are_texts = _are_texts(args)
    compares = len(args.snapshots) == 2 and not are_texts
    asks = "--down" if args.down is not None else "two files" if compares else None
    too_many = len(args.snapshots) > 2 and not are_texts
    if too_many or (args.down is not None and compares):
        got = ", ".join(map(str, args.snapshots))
        allowed = "one file, or without --down a file before a change and one after it"
        raise UsageError("too many files", where="the command line", got=got, allowed=allowed)
    for option in ("html", "scenario"):
        if asks is not None and getattr(args, option) is not None:
            what, allowed = f"--{option} is for the whole advice", f"--{option} without {asks}"
            raise UsageError(what, where=f"--{option}", got=f"beside {asks}", allowed=allowed)
    return compares


def _say_down(args: Args, snapshot: ClusterSnapshot, assumed: Assumption | None) -> ExitCode:
    from analysis.advise.advice import releases_of, unsaid_notes
    from analysis.advise.down import ask_down, parse_down
    from harness.cli.advise_answers import EXIT_CODES, print_down

    brokers = parse_down(args.down, snapshot)
    release, _, changes = releases_of(snapshot, assumed)
    if changes is not None:
        unsaid = ", ".join(snapshot.unsaid) or "nothing, because the cluster itself says it"
        what, allowed = "a change is for the whole advice", f"with --down: {unsaid}"
        raise UsageError(what, where="--assume", got=changes.in_words(), allowed=allowed)
    assumptions = (*snapshot.assumed, *unsaid_notes(snapshot, release, assumed))
    snapshot = msgspec.structs.replace(snapshot, assumed=assumptions)
    with shown_progress() as progress:
        answer = ask_down(snapshot, release, brokers, pattern=args.topics, progress=progress)
    if args.json:
        print_json(answer)
    else:
        print_down(answer, snapshot)
    return EXIT_CODES[answer.says]


def _say_changes(args: Args, before: ClusterSnapshot, assumed: Assumption | None) -> ExitCode:
    from analysis.advise.advice import advise
    from analysis.advise.compare import compare_advice
    from ebbtide.snapshot.model import read_snapshot
    from harness.cli.advise_answers import print_comparison

    after = read_snapshot(args.snapshots[1])
    with shown_progress() as progress:
        pair = [advise(one, pattern=args.topics, assumed=assumed, progress=progress) for one in (before, after)]
    if any(one.after is not None for one in pair):
        what, allowed = "a change is for the whole advice", "with two files: what they do not say"
        raise UsageError(what, where="--assume", got=args.assume, allowed=allowed)
    found = compare_advice(*pair)
    if args.json:
        print_json(found)
    else:
        print_comparison(found)
    return ExitCode.AS_PREDICTED


def _snapshot(args: Args, assumed: Assumption | None) -> ClusterSnapshot:
    from ebbtide.scenario.foreign_files import CLUSTER_FILES

    if (not args.snapshots) == (args.bootstrap is None):
        raise UsageError(
            "name the cluster, or files that describe it",
            where="the command line",
            got="both" if args.bootstrap else "neither",
            allowed=f"--bootstrap HOST:PORT, {CLUSTER_FILES}",
        )
    if args.snapshots:
        from ebbtide.snapshot.model import read_snapshot
        from ebbtide.snapshot.text_files import describe_files, snapshot_of

        if args.command_config is not None:
            raise UsageError("a file needs no connection", where="--command-config", got=str(args.command_config))
        if _are_texts(args):
            values = None if assumed is None else assumed.values
            return snapshot_of(describe_files(args.snapshots, values), args.snapshots)
        return read_snapshot(args.snapshots[0])
    from cluster.snapshot.reading import read_cluster
    from cluster.snapshot.security import security_of

    return read_cluster(addresses_of("--bootstrap", args.bootstrap), security_of(args.command_config))
