"""`ebbtide cluster up|status|topic|exec|fault|down`: a cluster for experiments by hand."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.privileges.choice import PrivilegeRequest
from ebbtide.errors import ExitCode, HarnessError, UsageError
from harness.cli import completing
from harness.cli.command import Args, Command, Group
from harness.cli.option_values import launch_options_of, named_cluster, publish_of, release_of
from harness.cli.options import (
    add_cluster_name_option,
    add_cluster_option,
    add_cluster_option_of_group,
    add_json_option,
    add_launch_options,
    add_release_option,
    add_seed_option,
)
from harness.cli.output import print_json
from harness.cli.run_flow import check_runs, seed_or_new

if TYPE_CHECKING:
    from ebbtide.daemon.messages import ClusterStatus
    from ebbtide.scenario.model import Scenario


_EXAMPLES = """examples:
  ebbtide cluster up --kafka 4.3.1 --brokers 3
  ebbtide cluster topic t
  ebbtide cluster exec -- \\
    sh -c 'python -m kafka.producer -b $EBBTIDE_BOOTSTRAP -t t'
  ebbtide cluster fault power-loss 'leader(t-0)'
  ebbtide cluster down
"""


def command() -> Group:
    """Declare the verb's arguments."""
    group = Group(
        "Start a cluster for experiments by hand. It runs until `ebbtide cluster down`.",
        epilog=_EXAMPLES,
        dest="action",
        metavar="ACTION",
    )
    add_cluster_option_of_group(group)
    _add_up(group.action("up", help="start a cluster, and say how to reach it"))
    status = group.action("status", help="show the running clusters, their nodes and partitions")
    add_cluster_option(status, by_position=True)
    add_json_option(status)
    execute = group.action("exec", help="run a command in the network of the cluster's clients", verbatim=True)
    add_cluster_option(execute)
    execute.argument(
        "command",
        many=True,
        needed=False,
        metavar="-- CMD",
        help="the command; EBBTIDE_BOOTSTRAP has the brokers' addresses",
    )
    topic = group.action("topic", help="create a topic")
    topic.argument("topic", metavar="TOPIC")
    topic.option("--partitions", type=int, default=1, metavar="N", help="number of partitions (default: 1)")
    topic.option(
        "--replication-factor", type=int, default=3, metavar="N", help="replicas of each partition (default: 3)"
    )
    topic.option("--min-isr", type=int, default=2, metavar="N", help="min.insync.replicas (default: 2)")
    add_json_option(topic)
    add_cluster_option(topic)
    group.lazy_action(
        "fault",
        "harness.cli.cluster_fault",
        help="inject a fault, or run another step of scenarios, and prove its effect",
    )
    down = group.action("down", help="stop a cluster, and undo everything that it made on this host")
    add_cluster_option(down, by_position=True)
    add_json_option(down)
    return group


def _add_up(command: Command) -> None:
    command.argument(
        "scenario",
        needed=False,
        metavar="SCENARIO",
        completes=completing.complete_scenario_or_file,
        help="start the cluster, topics and clients of this scenario, but run none of its steps. `down` then completes "
        "the record, and `ebbtide analyze` judges it",
    )
    add_release_option(command, " (default: the scenario's first, or the newest that Ebbtide knows)")
    command.option("--brokers", type=int, metavar="N", help="number of brokers, 1 to 6 (default: 3)")
    command.option(
        "--controllers",
        type=int,
        metavar="N",
        help="number of controllers, 1 or 3, or 2 with --quorum dynamic (default: 1)",
    )
    command.option(
        "--quorum",
        choices=("static", "dynamic"),
        help="how the controllers know who votes. In a dynamic quorum (KIP-853, Kafka 3.9 or later), add-voter and "
        "remove-voter change that (default: static)",
    )
    command.option(
        "--log-dirs",
        type=int,
        metavar="N",
        help="log directories of each broker, each on a volume of its own, 1 to 3 (default: 1)",
    )
    add_cluster_name_option(command)
    add_seed_option(command)
    command.option(
        "--publish",
        metavar="[tls:]PORT",
        help="let clients on this host reach the brokers at 127.0.0.1:PORT, PORT+1, ...; on loopback only. 0 takes any "
        "free ports. tls:PORT: clients connect with TLS. With SCENARIO it records what they send, and the run is "
        "judged by it, too",
    )
    command.flag("--wire", help="put a proxy in front of every node, which wire faults need")
    command.flag("--clocks", help="load an agent into every node, which set-clock needs")
    command.flag(
        "--keep-cluster",
        help="with SCENARIO: the first `down` completes the record, and the second one stops the cluster",
    )
    add_json_option(command)
    command.flag("--foreground", help="stay in the foreground until the cluster stops; Ctrl-C stops it")
    command.flag("--tied", hidden=True, help="with --foreground: stop the cluster when standard input ends")
    add_launch_options(command)


def privileges(args: Args) -> PrivilegeRequest | None:
    """Return the privileges of the verb: the daemon needs them, and `exec` may.

    `exec` needs them in namespaces that root made for this user.
    """
    if args.action == "up" and args.foreground:
        from ebbtide.daemon.control import sockets_dir

        return PrivilegeRequest(runtime=args.runtime, folders=(args.runs, sockets_dir()))
    if args.action == "exec":
        from ebbtide.daemon.control import find_cluster

        return (
            PrivilegeRequest(runtime="docker")
            if find_cluster(named_cluster(args)).powers == "helper container"
            else None
        )
    return None


def run(args: Args) -> ExitCode:
    """Run the action that was typed."""
    match args.action:
        case "up":
            return _run_daemon(args) if args.foreground else _up(args)
        case "status":
            return _status(named_cluster(args), as_json=args.json)
        case "exec":
            _exec(named_cluster(args), args.command)
        case "topic":
            return _topic(args)
    return _down(named_cluster(args), as_json=args.json)


def _up(args: Args) -> ExitCode:
    from ebbtide.daemon.control import choose_name
    from ebbtide.daemon.starting import DaemonEnded, DaemonProcess

    _scenario(args)
    name = choose_name(args.name)
    owner = DaemonProcess([*args.argv, "--foreground", "--name", name], name, tied=False)
    try:
        status = owner.await_up(lambda line: print(line, file=sys.stderr if args.json else sys.stdout, flush=True))
    except DaemonEnded as ended:
        return ExitCode(ended.code) if ended.code in list(ExitCode) else ExitCode.HARNESS_FAILED
    owner.let_go()
    if args.json:
        print_json(status)
        return ExitCode.AS_PREDICTED
    print()
    _print_status(status)
    return ExitCode.AS_PREDICTED


def _run_daemon(args: Args) -> ExitCode:
    from ebbtide.daemon.control import choose_name
    from ebbtide.scenario import catalogue
    from ebbtide.shown_console import PlainTextConsole
    from harness.daemon.owned_runs import own_cluster
    from harness.runner.live_view import display_for

    scenario = _scenario(args)
    name = choose_name(args.name)
    runs = check_runs(launch_options_of(args), scenario, scenario.kafka, publish=publish_of(args.publish))
    with (
        catalogue.located_refusals(args.scenario, "ebbtide cluster up"),
        display_for(PlainTextConsole()) as display,
    ):
        (request,) = runs.requests(display, seed_or_new(args.seed))
        own_cluster(
            request,
            display,
            name=name,
            tap_all=args.wire,
            set_clocks=args.clocks,
            tied_to=sys.stdin.fileno() if args.tied else None,
            keep=args.keep_cluster,
        )
    return ExitCode.AS_PREDICTED


def _scenario(args: Args) -> Scenario:
    """Return the scenario to bring up, without steps. Raises `UsageError`."""
    import msgspec

    from ebbtide.releases.known_releases import KNOWN
    from ebbtide.scenario import catalogue
    from ebbtide.scenario.model import MAX_BROKERS, ClusterSpec
    from ebbtide.scenario.validate_directories import MAX_LOG_DIRS
    from harness.daemon.owned_runs import plain_scenario

    if (name := named_cluster(args)) is not None:
        raise UsageError(
            "up starts a new cluster, so it takes --name",
            where="--cluster",
            got=name,
            next=f"--name {shlex.quote(name)}",
        )
    publish_of(args.publish)
    if args.keep_cluster and args.scenario is None:
        raise UsageError("a cluster without a scenario has no run after which to keep it", where="--keep-cluster")
    if args.scenario is not None:
        found = catalogue.find(args.scenario)
        for option, what, has in (
            ("brokers", "the number of brokers", found.cluster.brokers),
            ("controllers", "the number of controllers", found.cluster.controllers),
            ("quorum", "the kind of quorum", found.cluster.quorum or "static"),
            ("log_dirs", "the number of log directories", found.cluster.log_dirs or 1),
        ):
            if (got := getattr(args, option)) is not None:
                raise UsageError(
                    f"the scenario sets {what}",
                    where=f"--{option.replace('_', '-')}",
                    got=str(got),
                    allowed=f"{has}, as in {args.scenario}",
                    next=f"ebbtide cluster up {shlex.quote(args.scenario)}",
                )
        kafka = found.kafka[0] if args.kafka is None else release_of(args.kafka)
        return msgspec.structs.replace(found, kafka=(kafka,), steps=())
    kafka = KNOWN[-1].version if args.kafka is None else release_of(args.kafka)
    brokers = 3 if args.brokers is None else args.brokers
    controllers = 1 if args.controllers is None else args.controllers
    if not 1 <= brokers <= MAX_BROKERS:
        raise UsageError("out of range", where="--brokers", got=str(brokers), allowed=f"1 to {MAX_BROKERS}")
    possible = (1, 2, 3) if args.quorum == "dynamic" else (1, 3)
    if controllers not in possible:
        raise UsageError(
            "not a possible number of controllers",
            where="--controllers",
            got=str(controllers),
            allowed="1 to 3" if 2 in possible else "1 or 3, or 2 with --quorum dynamic",
        )
    if args.log_dirs is not None and not 1 <= args.log_dirs <= MAX_LOG_DIRS:
        raise UsageError("out of range", where="--log-dirs", got=str(args.log_dirs), allowed=f"1 to {MAX_LOG_DIRS}")
    cluster = ClusterSpec(brokers=brokers, controllers=controllers, quorum=args.quorum, log_dirs=args.log_dirs)
    return plain_scenario(kafka, cluster)


def _status(name: str | None, *, as_json: bool) -> ExitCode:
    from ebbtide.daemon.control import NONE_UP, cluster_statuses, find_cluster
    from ebbtide.kraft.image import describe

    found = cluster_statuses() if name is None else [find_cluster(name)]
    for number, status in enumerate(found):
        if as_json:
            print_json(status)
        else:
            print("\n" if number else "", end="")
            _print_status(status)
            for name, node in status.nodes.items():
                print(f"  {name:<16}{', '.join(filter(None, (node.state, node.registration)))}")
            for row in status.partitions:
                print(f"  {describe(row)}")
            for fault in status.broken:
                proof = "" if fault.proven else ", without proof"
                print(f"  broken:   {' '.join(filter(None, (fault.step, fault.whom)))}{proof}")
    if not found and not as_json:
        print(f"no cluster is running\nnext: {NONE_UP}")
    return ExitCode.AS_PREDICTED


def _print_status(status: ClusterStatus) -> None:
    """Print how to reach, break and stop a cluster."""
    from harness.daemon.client_place import namespace_prefix

    brokers = sum(node.role == "broker" for node in status.nodes.values())
    counts = {"broker": brokers, "controller": len(status.nodes) - brokers}
    nodes = ", ".join(f"{count} {role}{'s' if count != 1 else ''}" for role, count in counts.items())
    left_up = ", left up by a run that is over" if status.kept else ""
    print(f"{status.name}: Kafka {status.kafka}, {nodes}, runtime {status.runtime}{left_up}")
    only = "" if status.published else " only"
    print(f"  brokers:  {','.join(status.bootstrap)}, reached from the clients' network namespace{only}")
    if status.controllers:
        print(f"  quorum:   {','.join(status.controllers)}, the controllers, reached from there only")
    print(f"  reach:    ebbtide cluster exec -- CMD, or {shlex.join(namespace_prefix(status))} CMD")
    if status.published:
        trust = f" with TLS; trust {status.published_ca}" if status.published_ca else ""
        print(f"  publish:  {','.join(status.published)}, reached from this host{trust}")
    print("  break:    ebbtide cluster fault power-loss 'broker(1)'")
    print(f"  record:   {status.record}")
    print(f"  end:      ebbtide cluster down {status.name}")


def _topic(args: Args) -> ExitCode:
    from ebbtide.daemon.control import ask, find_cluster
    from ebbtide.daemon.messages import CreateTopic
    from ebbtide.kraft.image import describe
    from ebbtide.scenario.model import TopicSpec

    spec = TopicSpec(partitions=args.partitions, replication_factor=args.replication_factor, min_isr=args.min_isr)
    reply = ask(find_cluster(named_cluster(args)).name, CreateTopic(topic=args.topic, spec=spec))
    assert reply.status is not None
    for row in reply.status.partitions:
        if row.topic == args.topic:
            if args.json:
                print_json(row)
            else:
                print(describe(row))
    return ExitCode.AS_PREDICTED


def _exec(name: str | None, command: Sequence[str]) -> None:
    """Replace this process by the command."""
    from ebbtide.daemon.control import find_cluster
    from harness.daemon.client_place import client_environment, namespace_prefix

    if not command:
        raise UsageError(
            "exec needs a command", allowed="ebbtide cluster exec -- CMD", next="ebbtide cluster exec --help"
        )
    status = find_cluster(name)
    whole = [*namespace_prefix(status), *command]
    sys.stdout.flush()
    try:
        os.execvpe(whole[0], whole, client_environment(status))
    except OSError as error:
        raise HarnessError(f"cannot start {whole[0]}", got=error.strerror, next="apt-get install util-linux") from None


def _down(name: str | None, *, as_json: bool) -> ExitCode:
    from ebbtide.daemon.control import end, find_cluster

    status = find_cluster(name)
    end(status.name)
    has_run = bool(status.scenario) and not status.kept
    if as_json:
        from ebbtide.daemon.messages import DownOutput

        print_json(DownOutput(name=status.name, run_id=status.run_id, record=status.record, has_run=has_run))
        return ExitCode.AS_PREDICTED
    print(f"{status.name} is down")
    if has_run:
        print(f"next: ebbtide analyze {shlex.quote(str(Path(status.record)))}")
    return ExitCode.AS_PREDICTED
