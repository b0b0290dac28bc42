"""`ebbtide watch`: records and judges what a cluster loses that Ebbtide did not start."""

from __future__ import annotations

import shlex
from pathlib import Path

from ebbtide.errors import RUN_CODES, ExitCode, UsageError
from harness.cli import completing, options
from harness.cli.command import Args, Command
from harness.cli.option_values import addresses_of
from harness.cli.parameters import TimeWithUnit, duration_s_of

_EPILOG = """examples:
  ebbtide watch --for 30m \\
    --bootstrap broker-1:9092 --controllers ctrl-1:9093,ctrl-2:9093
  ebbtide watch --bootstrap broker-1:9092 orders.toml      (your own topics)
  ebbtide watch mark "drained node 3"      (while the watch goes on)
  kubectl get events -o json | ebbtide watch mark --events -
  ebbtide watch end                        (it reads everything, and judges)

no cluster of your own? compose/foreign.yaml of a checkout is one. Its head has
the commands, also to break it.
"""


def command() -> Command:
    """Declare the verb's arguments."""
    command = Command(
        "Watch a cluster that Ebbtide did not start, while somebody else breaks it. The command makes a topic of its "
        "own, sends and reads records at a limited rate, and follows the metadata log. At the end it reads everything, "
        "judges what was lost, and deletes the topic. It breaks nothing. What it cannot know, for example whether a "
        "disk lost its page cache, stays unknown, and then the outcome is inconclusive.",
        epilog=_EPILOG,
        codes=RUN_CODES,
    )
    command.argument(
        "words",
        many=True,
        needed=False,
        metavar="WORKLOAD.toml | mark TEXT | end",
        completes=completing.complete_file,
        help="a scenario file without steps: its topics, clients and predictions (default: one topic with one "
        "partition, 20 records a second with acks=all). `mark TEXT` notes what you do in the watch that goes on, and "
        "`end` ends it; if several go on, --runs RUN says which",
    )
    options.add_connection_options(command)
    command.option(
        "--controllers",
        metavar="HOST:PORT,...",
        help="the listeners of the controllers; without them the metadata log is not read, and causes stay unknown",
    )
    command.option(
        "--for", type=TimeWithUnit(), dest="duration", metavar="TIME", help="how long to watch: 90s, 30m, 2h"
    )
    options.add_release_option(
        command,
        ". By default the brokers show the cluster's minor release. The judge assumes its newest patch, and every text "
        "says that the patch is not known",
        takes_builds=False,
    )
    options.add_runs_option(command)
    command.option(
        "--events",
        type=Path,
        metavar="FILE",
        completes=completing.complete_file,
        help="with mark: what `kubectl get events -o json` prints; the events since the watch began become marks, with "
        "their own times. - reads stdin",
    )
    options.add_fail_on_option(command, default="loss")
    options.add_json_option(command)
    return command


def run(args: Args) -> ExitCode:
    """Watch and judge, or say something to a watch. Raises `EbbtideError`."""
    if args.words and args.words[0] in ("mark", "end"):
        return _pass_events_on(args) if args.events is not None else _say(args)
    if args.events is not None:
        raise UsageError("only `watch mark` takes events", where="--events", next="ebbtide watch mark --events FILE")
    return _watch(args)


def _pass_events_on(args: Args) -> ExitCode:
    from ebbtide.shown_text import plural
    from ebbtide.untrusted.files import read_file, read_stdin
    from harness.watch.marks import notes_of, pass_on, watch_going_on

    if list(args.words) != ["mark"]:
        raise UsageError(
            "events are marks of their own", where="--events", got=" ".join(args.words), allowed="mark --events FILE"
        )
    is_stdin = str(args.events) == "-"
    content = read_stdin(what="the input") if is_stdin else read_file(args.events, what="the file of events")
    notes = notes_of(content, "stdin" if is_stdin else str(args.events))
    record = watch_going_on(args.runs)
    count = pass_on(record, notes)
    earlier = len(notes) - count
    left_out = f"; {earlier:,} from before the watch left out" if earlier else ""
    print(f"{plural(count, 'event')} noted in {record}{left_out}")
    return ExitCode.AS_PREDICTED


def _say(args: Args) -> ExitCode:
    from ebbtide.shown_text import escape_controls
    from harness.watch.marks import TEXT_MAX, say, watch_going_on

    verb, *texts = args.words
    if args.json:
        raise UsageError("only the watch itself prints a verdict", where="--json", got=f"watch {verb}")
    text = None
    if verb == "mark":
        text = escape_controls(" ".join(texts)).strip()
        if not text or len(text) > TEXT_MAX or "\n" in text:
            raise UsageError(
                "not a mark", where="mark TEXT", got=repr(text[:60]), allowed=f"one line of 1 to {TEXT_MAX} characters"
            )
    elif texts:
        raise UsageError("`watch end` has no further words", where="end", got=" ".join(texts))
    record = watch_going_on(args.runs)
    say(record, text)
    print(f"noted in {record}" if text is not None else f"the watch ends: {record}")
    return ExitCode.AS_PREDICTED


def _watch(args: Args) -> ExitCode:
    from cluster.snapshot.security import security_of
    from ebbtide.releases.known_releases import require_release
    from ebbtide.scenario import catalogue
    from ebbtide.shown_console import PlainTextConsole
    from harness.cli.analyze import judge_all
    from harness.cli.run_flow import report_unfinished_records
    from harness.runner.display import PlainDisplay
    from harness.runner.host import require_folder
    from harness.watch.plan import read_workload
    from harness.watch.watching import WatchRequest, watch_cluster

    if len(args.words) > 1:
        raise UsageError(
            "one workload at most", where="WORKLOAD.toml", got=" ".join(args.words), allowed="a scenario file"
        )
    for flag, value in (("--bootstrap", args.bootstrap), ("--for", args.duration)):
        if value is None:
            raise UsageError(f"{flag} is missing", where=flag)
    if args.release is not None:
        require_release(args.release)
    security_of(args.command_config)
    request = WatchRequest(
        bootstrap=addresses_of("--bootstrap", args.bootstrap),
        controllers=addresses_of("--controllers", args.controllers) if args.controllers else (),
        command_config=None if args.command_config is None else str(args.command_config.absolute()),
        duration_s=duration_s_of("--for", args.duration),
        runs=args.runs,
        kafka=args.release,
        workload=read_workload(Path(args.words[0])) if args.words else None,
    )
    require_folder(args.runs)
    display = PlainDisplay(PlainTextConsole(stderr=args.json))
    records: list[Path] = []
    with (
        catalogue.located_refusals(args.words[0] if args.words else None, _command_without_file(args)),
        report_unfinished_records("recorded, but not judged; next", lambda: records, display.note),
    ):
        records.append(watch_cluster(request, display))
        return judge_all(records, as_json=args.json, fail_on=args.fail_on)


def _command_without_file(args: Args) -> str:
    """Return the command of this watch as far as the cluster and the time; a workload may follow."""
    values = {
        "--bootstrap": args.bootstrap,
        "--controllers": args.controllers,
        "--command-config": args.command_config,
        "--for": args.duration,
        "--kafka": args.release,
    }
    words = [str(word) for flag, value in values.items() if value is not None for word in (flag, value)]
    return shlex.join(["ebbtide", "watch", *words])
