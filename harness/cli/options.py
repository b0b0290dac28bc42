"""The options that several verbs have: each is declared once, so that it reads the same everywhere."""

from __future__ import annotations

from pathlib import Path

from ebbtide.record.outcomes import FailOn
from harness.cli import completing
from harness.cli.command import CommandBase, Group
from harness.cli.parameters import TimeWithUnit

_WHICH_CLUSTER = "the cluster to use (default: the only one that no other program started)"
_OR_JARS = ", or jars of yours (docs/own-kafka.md)"
_SUCH_AS = ", such as 4.3.1"
_NO_BUILD = ". Of a build of yours, name the nearest release"


def add_record_argument(command: CommandBase) -> None:
    """Declare RUN of a verb that takes one run record."""
    command.argument(
        "run",
        metavar="RUN",
        type=Path,
        is_record=True,
        completes=completing.complete_record,
        help="a run record, e.g. runs/<run_id>, or a .tgz or .zip of one",
    )


def add_json_option(command: CommandBase) -> None:
    """Declare --json."""
    command.flag("--json", help="print JSON instead of text (docs/commands.md); progress goes to stderr")


def add_runs_option(command: CommandBase) -> None:
    """Declare --runs, of every verb that leaves a run record."""
    command.option(
        "--runs",
        type=Path,
        default=Path("runs"),
        metavar="DIR",
        completes=completing.complete_folder,
        help="the folder for run records (default: ./runs)",
    )


def add_releases_option(command: CommandBase, default: str, more: str = "", *, takes_builds: bool = True) -> None:
    """Declare --kafka of a verb that takes several releases; `default` says which it takes without the option.

    A verb that `takes_builds` has them by name in `args.kafka`. Another verb has `args.releases`, as they were typed.
    """
    command.option(
        "--kafka",
        dest="kafka" if takes_builds else "releases",
        metavar="RELEASES",
        completes=completing.complete_releases,
        help=f"releases{_OR_JARS if takes_builds else _SUCH_AS}, separated by commas{more} (default: {default})"
        + ("" if takes_builds else _NO_BUILD),
    )


def add_release_option(
    command: CommandBase, says: str, default: str | None = None, *, takes_builds: bool = True
) -> None:
    """Declare --kafka of a verb that takes one release, as `add_releases_option` does: `args.kafka`, or `.release`."""
    command.option(
        "--kafka",
        dest="kafka" if takes_builds else "release",
        default=default,
        metavar="RELEASE",
        completes=completing.complete_release,
        help=f"the release{_OR_JARS if takes_builds else _SUCH_AS}{says}" + ("" if takes_builds else _NO_BUILD),
    )


def add_feature_option(command: CommandBase) -> None:
    """Declare --feature."""
    command.option(
        "--feature",
        repeated=True,
        metavar="NAME=LEVEL",
        help="format with this feature level instead of the scenario's or the release's default, such as "
        "eligible.leader.replicas.version=1 on 4.0 (repeatable)",
    )


def add_seed_option(command: CommandBase, says: str = "the seed of all random choices (default: a new one)") -> None:
    """Declare --seed."""
    command.option("--seed", type=int, metavar="N", help=says)


def add_new_cluster_option(command: CommandBase) -> None:
    """Declare --cluster of a verb that may leave a new cluster running."""
    command.option("--cluster", metavar="NAME", help="the new cluster's name (default: cluster-1, cluster-2, ...)")


def add_budget_option(command: CommandBase, says: str, default: str | None) -> None:
    """Declare --budget; `says` is what may happen in this time."""
    shown = "no limit" if default is None else default
    command.option(
        "--budget",
        type=TimeWithUnit(),
        default=default,
        metavar="TIME",
        help=f"{says} (such as 2h, 90m or 30s; default: {shown})",
    )


def add_times_option(command: CommandBase, says: str, default: int) -> None:
    """Declare --times."""
    command.option("--times", type=int, least=1, default=default, metavar="N", help=f"{says} (default: {default})")


def add_out_option(command: CommandBase, says: str, kind: str = "FILE.toml", *, needed: bool = False) -> None:
    """Declare --out, the file or folder that a command writes."""
    command.option("--out", type=Path, needed=needed, metavar=kind, help=says)


def add_html_option(command: CommandBase, what: str) -> None:
    """Declare --html of a command that may also write a page."""
    command.option("--html", type=Path, metavar="FILE.html", help=f"also write {what} as a page")


def add_connection_options(command: CommandBase) -> None:
    """Declare how to reach a cluster that Ebbtide did not start."""
    command.option("--bootstrap", metavar="HOST:PORT,...", help="the client listeners of one or several brokers")
    command.option(
        "--command-config",
        type=Path,
        metavar="FILE",
        completes=completing.complete_file,
        help="client properties for TLS and SASL, as Kafka's own tools take them",
    )


def add_runtime_option(command: CommandBase) -> None:
    """Declare --runtime."""
    command.option(
        "--runtime",
        choices=("auto", "docker", "local"),
        default="auto",
        help="where the nodes run: docker (containers) or local (processes of this host). auto, the default, means "
        "docker if a Docker daemon answers and has or can build an image of the release",
    )


def add_launch_options(command: CommandBase) -> None:
    """Declare the options of every verb that runs scenarios on clusters."""
    add_runs_option(command)
    add_runtime_option(command)
    command.option("--image", metavar="REF", help="the Docker image to use, such as apache/kafka:3.9.1")
    command.option(
        "--power-loss",
        choices=("auto", "fs-shutdown", "truncate"),
        default="auto",
        help="what a power loss does: fs-shutdown loses everything that was not fsynced; truncate cuts logs back to "
        "their recovery points, the worst case. auto, the default, means fs-shutdown if the host supports it",
    )


def add_cluster_option_of_group(group: Group) -> None:
    """Declare --cluster of a group, so that it may also come before the subcommand."""
    group.option(
        "--cluster",
        dest=f"cluster_before_{group.dest}",
        metavar="NAME",
        help=_WHICH_CLUSTER,
        completes=completing.complete_cluster,
    )


def add_cluster_option(command: CommandBase, which: str = _WHICH_CLUSTER, *, by_position: bool = False) -> None:
    """Declare --cluster of a command; with `by_position` the name alone is enough."""
    command.option("--cluster", metavar="NAME", help=which, completes=completing.complete_cluster)
    if by_position:
        command.argument(
            "cluster_alone",
            needed=False,
            metavar="NAME",
            help="the same as --cluster NAME",
            completes=completing.complete_cluster,
        )


def add_jobs_option(command: CommandBase) -> None:
    """Declare --jobs."""
    command.option(
        "--jobs",
        type=int,
        least=1,
        default=1,
        metavar="N",
        help="how many runs go on at once, each on its own cluster (default: 1); two CPU cores are enough for two",
    )


def add_fail_on_option(command: CommandBase, default: FailOn = "outcome") -> None:
    """Declare --fail-on, which lets a lost record fail a command that its outcome alone would let pass."""
    command.option(
        "--fail-on",
        choices=("outcome", "loss"),
        default=default,
        help=f"what fails the command (default: {default}). `loss`: exit code 1 also if a run loses committed records "
        "as predicted, or without a prediction; `outcome`: the outcome alone decides",
    )


def add_judging_options(command: CommandBase) -> None:
    """Declare --rule, --property and --variant: by what a verb judges, besides the rules of the release."""
    command.option(
        "--rule",
        repeated=True,
        metavar="FILE",
        completes=completing.complete_file,
        help="judge with the clause in this Python file, too (repeatable; see docs/own-rules.md). The file runs as you",
    )
    command.option(
        "--property",
        dest="properties",
        repeated=True,
        metavar="FILE",
        completes=completing.complete_file,
        help="check the property in this Python file in each recorded state of a partition (repeatable; see "
        "docs/own-kafka.md). The file runs as you",
    )
    command.option(
        "--variant",
        dest="judge_by",
        metavar="NAME",
        help="judge by this variant of the protocol, such as kip966, or by that of a release. The default is that of "
        "the release nearest to what ran. A Python file with a variant of yours runs as you (docs/own-kafka.md)",
    )
