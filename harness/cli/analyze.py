"""`ebbtide analyze RUN...`: judge recorded runs, offline, without root and without a cluster."""

from __future__ import annotations

import contextlib
import re
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from ebbtide.errors import EbbtideError, ExitCode, UsageError
from harness.cli import completing
from harness.cli.command import Args, Command
from harness.cli.crash import report

if TYPE_CHECKING:
    from analysis.early_session import EarlySession
    from analysis.remote.record import RemoteRecord, RemoteStore
    from analysis.report.summary import JudgedRun

SIDE_BY_SIDE_MAX = 12
"""More runs than these are told in a line each, as they are judged."""

_MASTER = re.compile(r"local(\[(\d+|\*)(, *\d+)?\])?|local-cluster\[.+\]|yarn|(spark|k8s)://.+")
"""What Spark takes for a master: it tells another one by the traceback of a JVM that does not start."""


def command() -> Command:
    """Declare the verb's arguments."""
    command = Command(
        "Judge run records: writes verdict.json, report.html and anomalies/ into each. Needs no root and no "
        "cluster. The exit code is the worst of all: a record that cannot be read (4) does not "
        "stop the others from being judged, nor does one that contradicts (1) or proves nothing (2)."
    )
    command.argument(
        "runs",
        many=True,
        metavar="RUN",
        completes=completing.record,
        help="a run record, e.g. runs/<run_id>, or a folder of any number of them, e.g. runs; also the address of "
        "either on a Hadoop file system, e.g. hdfs://namenode/runs; $HADOOP_CONF_DIR and $SPARK_CONF_DIR apply",
    )
    command.flag("--json", help="print each verdict.json as one line instead of a table")
    command.option(
        "--master",
        metavar="URL",
        default=None,
        help="the Spark master (default: this machine); records named by path must be visible to its workers",
    )
    return command


def run(args: Args) -> ExitCode:
    """Judge each record once, however often it is named; returns the worst exit code. Raises `UsageError`."""
    if args.master is not None and not _MASTER.fullmatch(args.master):
        allowed = "local[N], spark://HOST:PORT, yarn or k8s://..."
        raise UsageError("no Spark master", where="--master", got=repr(args.master), allowed=allowed)
    places = [place_of(named) for named in args.runs]
    found = [record for place in places if isinstance(place, Path) for record in records_in(place)]
    records: dict[Path, Path] = {}
    for record in found:
        records.setdefault(record.resolve(), record)
    addresses = list(dict.fromkeys(place for place in places if isinstance(place, str)))
    return judge_all([*records.values()], addresses=addresses, as_json=args.json, master=args.master)


def place_of(named: str) -> Path | str:
    """A path, also given as a file:// address as Spark writes them, or an address of another file system.

    Raises `UsageError` for a file of another host.
    """
    address = urlsplit(named)
    if "://" not in named:
        return Path(named)
    if address.scheme != "file":
        return named
    if address.netloc not in ("", "localhost"):
        raise UsageError("a file of another host", where=named, allowed="a path, or file:///path")
    return Path(unquote(address.path))


def records_in(path: Path) -> list[Path]:
    """A record itself, or the runs in a folder that is none (or in its `runs`), by name; not those still going.

    Raises `UsageError` when all of them are.
    """
    from ebbtide.record.files import is_going
    from ebbtide.record.manifest import MANIFEST, is_plain_cluster, read_manifest, records_of

    def is_run(record: Path) -> bool:
        """A damaged one is told when its turn comes."""
        with contextlib.suppress(EbbtideError):
            return not is_plain_cluster(read_manifest(record))
        return True

    if (path / MANIFEST).exists() or not path.is_dir():
        return [path]
    found = records_of(path) or records_of(path / "runs")
    runs = [record for record in found if is_run(record)] or found or [path]
    going = [record for record in runs if is_going(record)]
    if len(going) == len(runs):
        raise UsageError(
            "every run in this folder is still going", where=str(path), next=f"ebbtide runs {shlex.quote(str(path))}"
        )
    for record in going:
        print(f"{record}: still going, and left out", file=sys.stderr)
    return [record for record in runs if record not in going]


def judge_all(
    records: Sequence[Path],
    *,
    addresses: Sequence[str] = (),
    as_json: bool = False,
    master: str | None = None,
    early: EarlySession | None = None,
) -> ExitCode:
    """Judge each record, print verdicts as JSON lines or a table, and return the worst exit code.

    `addresses`: of more records on other file systems, or of folders of them. `early`: a session that may have been
    begun already.
    """
    import msgspec

    from analysis.judging.many_records import judge_many
    from analysis.report.summary import judged_run
    from ebbtide.record.manifest import read_run
    from ebbtide.record.verdict import EXIT_OF_OUTCOME
    from harness.cli.progress import shown_progress

    codes: set[ExitCode] = set()
    readable: list[Path] = []
    for record in records:
        try:
            read_run(record)
        except EbbtideError as error:
            codes.add(complain(str(record), error))
        else:
            readable.append(record)
    done: list[JudgedRun] = []
    if readable or addresses:
        from analysis.reconcile.files import rows_of
        from analysis.reconcile.session import is_first_session, session
        from analysis.remote.record import RemoteStore
        from ebbtide.signals import unwinding

        first = is_first_session()
        with unwinding(), shown_progress() as progress:
            if not addresses:
                progress.found(len(readable), first=first)
            progress.stage("starting Spark")
            rows = rows_of(readable)
            if early is not None:
                early.wait(rows)
            with session(master, rows=rows) as spark, contextlib.ExitStack() as stack:
                progress.watch(spark)
                remote: dict[Path, RemoteRecord] = {}
                if addresses:
                    store = stack.enter_context(RemoteStore(spark))
                    remote = {one.folder: one for one in _found(store, addresses, codes)}
                    if readable or remote:
                        progress.found(len(readable) + len(remote), first=first)
                for record, verdict in judge_many([*readable, *remote], spark, progress.stage, remote):
                    named = str(remote.get(record, record))
                    if isinstance(verdict, EbbtideError):
                        codes.add(complain(named, verdict))
                    else:
                        codes.add(EXIT_OF_OUTCOME[verdict.outcome])
                        if as_json:
                            print(msgspec.json.encode(verdict).decode(), flush=True)
                        elif len(readable) + len(remote) > SIDE_BY_SIDE_MAX:
                            print(f"{named}: {verdict.outcome}: {'; '.join(verdict.why[:1])}", flush=True)
                        else:
                            done.append(judged_run(record, verdict, named=named))
                    progress.judged(record)
    if done:
        _tell(done)
    return ExitCode.worst(codes)


def _found(store: RemoteStore, addresses: Iterable[str], codes: set[ExitCode]) -> list[RemoteRecord]:
    """The records at some addresses; what is wrong with an address is said at once, and `codes` has its exit code."""
    found: list[RemoteRecord] = []
    for address in addresses:
        try:
            found += store.records_in(address)
        except EbbtideError as error:
            codes.add(complain(address, error))
    return found


def complain(record: str, error: EbbtideError) -> ExitCode:
    """Say on stderr why a record cannot be judged; of a bug also where its traceback is."""
    from analysis.judging.many_records import Bug
    from ebbtide.record.manifest import NoRecord

    if isinstance(error, NoRecord):
        error.allowed = "a run record (a folder with a manifest.json), or a folder of run records"
    named = error.where is not None and error.where.startswith(record)
    print(f"error: {'' if named else f'{record}: '}{error.render()}", file=sys.stderr)
    if isinstance(error, Bug):
        print(report(error.error), file=sys.stderr)
    return error.exit_code


def _tell(runs: list[JudgedRun]) -> None:
    """The runs side by side, then the reasons of each and where to look on."""
    from analysis.report.summary import summary_table, summary_text
    from ebbtide.record.files import is_run_id

    if sys.stdout.isatty():
        from rich.console import Console

        Console().print(summary_table(runs))
    else:
        print(summary_text(runs))
    for one in runs:
        run_id = one.manifest.run_id
        print(f"\n{run_id if is_run_id(run_id) else repr(run_id)}: {one.verdict.outcome}")
        for sentence in one.verdict.why:
            print(f"  - {sentence}")
        print(f"  report: {one.record}/report.html")
        print(f"  next:   ebbtide analyze {shlex.quote(str(one.record))} --json")
