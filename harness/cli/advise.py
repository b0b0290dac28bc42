"""`ebbtide advise`: says what somebody's cluster could lose. It only reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide.errors import ExitCode, UsageError
from ebbtide.named_files import check_named_file
from harness.cli.advise_table import check_folder, write_scenarios
from harness.cli.command import Args, Command
from harness.cli.option_values import addresses_of
from harness.cli.options import add_connection_options, add_html_option, add_json_option
from harness.cli.output import print_json
from harness.cli.progress import shown_progress

if TYPE_CHECKING:
    from analysis.advise.assumption import Assumption
    from ebbtide.snapshot.model import ClusterSnapshot

_EXAMPLES = """examples:
  ebbtide advise --bootstrap broker1:9092,broker2:9092
  ebbtide advise --bootstrap broker1:9093 \\
    --command-config client.properties --save cluster.json
  ebbtide advise cluster.json --topics 'orders*' \\
    --assume kafka=4.3.1,min.insync.replicas=2

no cluster of your own?
  ebbtide cluster up --kafka 4.3.1 --publish 19092
  ebbtide cluster topic t --partitions 1 --replication-factor 3 --min-isr 2
  ebbtide advise --bootstrap 127.0.0.1:19092
  ebbtide cluster down
  compose/foreign.yaml of a checkout is a cluster with TLS and SASL; its head has the commands.
"""


def command() -> Command:
    """Declare the verb's arguments."""
    command = Command(
        "Say what a cluster of yours could lose: which events lose acked records, by acks, for each group of alike "
        "topics. Ebbtide reads the cluster over the network and writes nothing to it. The answers are from the "
        "protocol's model.",
        epilog=_EXAMPLES,
    )
    command.argument(
        "snapshot", type=Path, needed=False, metavar="CLUSTER.json", help="a file of --save, instead of --bootstrap"
    )
    add_connection_options(command)
    command.option("--topics", default="*", metavar="PATTERN", help="only topics whose name fits, such as 'orders*'")
    command.option(
        "--assume",
        metavar="NAME=VALUE,...",
        help="also show the advice after a change, such as kafka=4.3.1,min.insync.replicas=2, and its price",
    )
    command.option("--save", type=Path, metavar="FILE", help="write what was read, for a later `ebbtide advise FILE`")
    command.flag("--all", help="print each event for each group of alike topics, and not only what fits one screen")
    add_json_option(command)
    add_html_option(command, "the advice")
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
    from ebbtide.snapshot.model import write_snapshot

    assumed = _assumption(args)
    for path, option in ((args.save, "--save"), (args.html, "--html")):
        if path is not None:
            check_named_file(path, "file", option)
    if args.scenario is not None:
        check_folder(args.scenario)
    snapshot = _snapshot(args)
    if args.save is not None:
        write_snapshot(args.save, snapshot)
    with shown_progress() as progress:
        advice = advise(snapshot, pattern=args.topics, assumed=assumed, progress=progress)
    if args.html is not None:
        from analysis.advise.page import write_advice

        write_advice(args.html, advice)
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


def _assumption(args: Args) -> Assumption | None:
    from analysis.advise.assumption import parse_assumption

    return None if args.assume is None else parse_assumption(args.assume)


def _snapshot(args: Args) -> ClusterSnapshot:
    if (args.snapshot is None) == (args.bootstrap is None):
        raise UsageError(
            "name the cluster, or a file of --save",
            where="the command line",
            got="both" if args.bootstrap else "neither",
            allowed="--bootstrap HOST:PORT, or CLUSTER.json",
        )
    if args.snapshot is not None:
        from ebbtide.snapshot.model import read_snapshot

        if args.command_config is not None:
            raise UsageError("a file needs no connection", where="--command-config", got=str(args.command_config))
        return read_snapshot(args.snapshot)
    from cluster.snapshot.reading import read_cluster
    from cluster.snapshot.security import Security, security_from

    security = Security() if args.command_config is None else security_from(args.command_config)
    return read_cluster(addresses_of("--bootstrap", args.bootstrap), security)
