"""`ebbtide cluster up|status|topic|exec|fault|down`: a cluster for experiments by hand."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cluster.privileges.choice import PrivilegeRequest
from ebbtide.errors import COMMAND_LINE, ExitCode, HarnessError, Problems, UsageError
from ebbtide.shown_text import plural, shown_path
from ebbtide.signals import deliver_awaited
from harness.cli import completing, options
from harness.cli.command import Args, Command, Group
from harness.cli.option_values import launch_options_of, named_cluster, publish_of, release_of, table_of_words
from harness.cli.output import print_json
from harness.cli.run_flow import check_runs, seed_or_new

if TYPE_CHECKING:
    from ebbtide.daemon.messages import ClusterStatus
    from ebbtide.scenario.model import Scenario


_EXAMPLES = """examples:
  ebbtide cluster up --kafka 4.3.1 brokers=3
  ebbtide cluster topic t
  ebbtide cluster exec -- \\
    sh -c 'python -m kafka.producer -b $EBBTIDE_BOOTSTRAP -t t'
  ebbtide cluster fault power-loss 'leader(t-0)'
  ebbtide cluster down
"""

_EXEC_HELP = """example:
  ebbtide cluster exec -- sh -c \\
    'python -m kafka.admin -b $EBBTIDE_BOOTSTRAP topics describe'

This Python is first on the PATH of CMD, with kafka.admin, kafka.producer and
kafka.consumer. There is no kafka-*.sh: type the path of your own Kafka's tool.
"""


def command() -> Group:
    """Declare the verb's arguments."""
    group = Group(
        "Start a cluster for experiments by hand. It runs until `ebbtide cluster down`.",
        epilog=_EXAMPLES,
        dest="action",
        metavar="ACTION",
    )
    options.add_cluster_option_of_group(group)
    _add_up(group.action("up", help="start a cluster, and say how to reach it"))
    status = group.action("status", help="show the running clusters, their nodes and partitions")
    options.add_cluster_option(status, "the cluster to show (default: all)", by_position=True)
    options.add_json_option(status)
    execute = group.action(
        "exec",
        help="run a command in the network of the cluster's clients",
        epilog=_EXEC_HELP,
        codes={0: "done; once CMD has started, every exit code is that of CMD"},
        verbatim=True,
    )
    options.add_cluster_option(execute)
    execute.argument(
        "command",
        many=True,
        needed=False,
        metavar="-- CMD",
        help="the command; EBBTIDE_BOOTSTRAP has the brokers' addresses",
    )
    topic = group.action("topic", help="create a topic")
    topic.argument("topic", metavar="TOPIC")
    topic.argument(
        "keys",
        many=True,
        needed=False,
        metavar="KEY=VALUE",
        help="keys of a topic as in scenario files (default: partitions=1 replication_factor=3 min_isr=2), and Kafka's "
        "own, such as retention.ms=60000",
    )
    options.add_json_option(topic)
    options.add_cluster_option(topic)
    group.lazy_action(
        "fault",
        "harness.cli.cluster_fault",
        help="inject a fault, or run another step of scenarios, and prove its effect",
    )
    down = group.action("down", help="stop a cluster, and undo everything that it made on this host")
    options.add_cluster_option(down, by_position=True)
    options.add_json_option(down)
    return group


def _add_up(command: Command) -> None:
    command.argument(
        "words",
        many=True,
        needed=False,
        metavar="SCENARIO | KEY=VALUE",
        completes=completing.complete_scenario_or_file,
        help="start the cluster, topics and clients of this scenario, but run none of its steps. `down` then completes "
        "the record, and `ebbtide analyze` judges it. Without a scenario: keys of [cluster] as in scenario files "
        "(default: brokers=3 controllers=1), such as quorum=dynamic or log_dirs=2, and Kafka's own of brokers",
    )
    options.add_release_option(command, " (default: the scenario's first, or the newest that Ebbtide knows)")
    options.add_new_cluster_option(command)
    options.add_seed_option(command)
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
    options.add_json_option(command)
    command.flag("--foreground", hidden=True, help="stay until the cluster stops; Ctrl-C stops it")
    command.option("--started-by", default="", hidden=True, help="with --foreground: the program that uses the cluster")
    command.flag("--tied", hidden=True, help="with --foreground: stop the cluster when standard input ends")
    options.add_launch_options(command)


def privileges(args: Args) -> PrivilegeRequest | None:
    """Return the privileges of the verb: the daemon needs them, and `exec` may.

    `exec` needs them in namespaces that root made for this user.
    """
    if args.action == "up" and args.foreground:
        from ebbtide.daemon.control import sockets_dir

        return PrivilegeRequest(runtime=args.runtime, folders=(args.runs, sockets_dir()))
    if args.action == "exec":
        from ebbtide.daemon.control import find_cluster

        if find_cluster(named_cluster(args)).powers == "helper container":
            return PrivilegeRequest(runtime="docker")
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
    name = choose_name(named_cluster(args))
    named = [] if named_cluster(args) == name else ["--cluster", name]
    owner = DaemonProcess([*args.argv, "--foreground", *named], name, tied=False)
    try:
        status = owner.await_up(lambda line: print(line, file=sys.stderr if args.json else sys.stdout, flush=True))
    except DaemonEnded as ended:
        return ExitCode(ended.code) if ended.code in list(ExitCode) else ExitCode.HARNESS_FAILED
    owner.let_go()
    if args.json:
        print_json(status)
    else:
        print()
        _print_status(status)
    return ExitCode.AS_PREDICTED


def _run_daemon(args: Args) -> ExitCode:
    from ebbtide.daemon.control import choose_name
    from ebbtide.scenario import catalogue
    from ebbtide.shown_console import PlainTextConsole
    from harness.daemon.owned_runs import own_cluster
    from harness.runner.live_view import display_for

    scenario, word = _scenario(args)
    name = choose_name(named_cluster(args))
    runs = check_runs(launch_options_of(args), scenario, scenario.kafka, publish=publish_of(args.publish))
    with (
        catalogue.located_refusals(word, "ebbtide cluster up"),
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
            started_by=args.started_by,
            up_again=shlex.join(["ebbtide", *(word for word in args.argv if word not in ("--foreground", "--tied"))]),
        )
    return ExitCode.AS_PREDICTED


def _scenario(args: Args) -> tuple[Scenario, str | None]:
    """Return the scenario to bring up, without steps, and the word that names it. Raises `EbbtideError`."""
    import msgspec

    from ebbtide.releases.known_releases import KNOWN
    from ebbtide.scenario import catalogue
    from ebbtide.scenario.model import ClusterSpec
    from ebbtide.scenario.validate import validate
    from harness.daemon.owned_runs import plain_scenario

    publish_of(args.publish)
    names = [word for word in args.words if "=" not in word]
    if args.keep_cluster and not names:
        raise UsageError("a cluster without a scenario has no run after which to keep it", where="--keep-cluster")
    if names:
        word, *others = names
        found = catalogue.find(word)
        if len(args.words) > 1:
            raise UsageError(
                "one scenario at a time" if others else "the scenario says what its cluster is",
                where=COMMAND_LINE,
                got=" ".join(one for one in args.words if one != word),
                next=f"ebbtide cluster up {shlex.quote(word)}",
            )
        kafka = found.kafka[0] if args.kafka is None else release_of(args.kafka)
        return msgspec.structs.replace(found, kafka=(kafka,), steps=()), word
    kafka = KNOWN[-1].version if args.kafka is None else release_of(args.kafka)
    plain = plain_scenario(kafka, table_of_words(args.words, ClusterSpec, "broker_properties"))
    problems = [one for one in validate(plain) if str(one.where).startswith("cluster")]
    if problems:
        raise Problems(COMMAND_LINE, [*problems])
    return plain, None


def _status(name: str | None, *, as_json: bool) -> ExitCode:
    from ebbtide.daemon.control import NONE_UP, cluster_statuses, find_cluster
    from ebbtide.kraft.image import describe
    from ebbtide.scenario.steps.table import WIRE_KINDS
    from harness.runner.display import NodeState

    found = cluster_statuses() if name is None else [find_cluster(name)]
    for number, status in enumerate(found):
        if as_json:
            print_json(status)
        else:
            print("\n" if number else "", end="")
            _print_status(status)
            for name, node in status.nodes.items():
                is_stale = node.state == "down" and node.registration == "unfenced"
                note = " until its session ends, within seconds" if is_stale else ""
                print(f"  {name:<16}{NodeState(node.state, node.registration)}{note}")
            for row in status.partitions:
                print(f"  {describe(row)}")
            for fault in status.broken:
                proof = "" if fault.proven else ", armed" if fault.step in WIRE_KINDS else ", without proof"
                print(f"  broken:   {' '.join(filter(None, (fault.step, fault.whom)))}{proof}")
            for step in status.repairs:
                print(f"  next:     ebbtide cluster fault {step} --cluster {status.name}")
    if not found and not as_json:
        print(f"no cluster is running\nnext: {NONE_UP}")
    return ExitCode.AS_PREDICTED


def _print_status(status: ClusterStatus) -> None:
    """Print how to reach, break and stop a cluster; a broker that runs on a sound volume can lose power."""
    from ebbtide.scenario.steps.table import DISK_TROUBLES

    brokers = sum(node.role == "broker" for node in status.nodes.values())
    nodes = f"{plural(brokers, 'broker')}, {plural(len(status.nodes) - brokers, 'controller')}"
    left_up = ", left up by a run that is over" if status.kept else ""
    print(f"{status.name}: Kafka {status.kafka}, {nodes}, runtime {status.runtime}{left_up}")
    if status.started_by:
        print(f"  started:  by {status.started_by}")
    only = "" if status.published else " only"
    print(f"  brokers:  {','.join(status.bootstrap)}, reached from the clients' network namespace{only}")
    if status.controllers:
        print(f"  quorum:   {','.join(status.controllers)}, the controllers, reached from there only")
    print(f"  reach:    ebbtide cluster exec --cluster {status.name} -- CMD")
    if status.published:
        trust = f" with TLS; trust {status.published_ca}" if status.published_ca else ""
        print(f"  publish:  {','.join(status.published)}, reached from this host{trust}")
    troubled = {node for fault in status.broken if fault.step in DISK_TROUBLES for node in fault.nodes}
    running = [node.id for node in status.nodes.values() if node.role == "broker" and node.state == "running"]
    for node in [one for one in running if one not in troubled][:1]:
        print(f"  break:    ebbtide cluster fault power-loss 'broker({node})' --cluster {status.name}")
    print(f"  record:   {shown_path(status.record)}")
    print(f"  end:      ebbtide cluster down {status.name}")


def _topic(args: Args) -> ExitCode:
    from ebbtide.daemon.control import ask, find_cluster
    from ebbtide.daemon.messages import CreateTopic
    from ebbtide.kraft.image import describe
    from ebbtide.scenario.model import TopicSpec

    spec = table_of_words(args.keys, TopicSpec, "config")
    reply = ask(find_cluster(named_cluster(args)).name, CreateTopic(topic=args.topic, spec=spec))
    assert reply.status is not None
    for row in reply.status.partitions:
        if row.topic == args.topic and args.json:
            print_json(row)
        elif row.topic == args.topic:
            print(describe(row))
    return ExitCode.AS_PREDICTED


def _exec(name: str | None, command: Sequence[str]) -> None:
    """Replace this process by the command."""
    from ebbtide.daemon.control import find_cluster
    from harness.daemon.client_place import client_environment, namespace_prefix

    if not command:
        raise UsageError("exec needs a command", allowed="ebbtide cluster exec -- CMD")
    status = find_cluster(name)
    environment = client_environment(status)
    if shutil.which(command[0], path=environment["PATH"]) is None:
        is_tool = command[0].startswith("kafka-") and command[0].endswith(".sh")
        what = "a release as Ebbtide fetches it has no console tools" if is_tool else "no such executable file"
        allowed = f"python -m kafka.admin, or the path of yours, such as ~/kafka/bin/{command[0]}" if is_tool else None
        raise UsageError(what, got=command[0], allowed=allowed)
    whole = [*namespace_prefix(status), *command]
    sys.stdout.flush()
    deliver_awaited()
    try:
        os.execvpe(whole[0], whole, environment)
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
    else:
        next_ = f"\nnext: ebbtide analyze {shlex.quote(shown_path(status.record))}" if has_run else ""
        print(f"{status.name} is down{next_}")
    return ExitCode.AS_PREDICTED
