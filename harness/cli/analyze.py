"""`ebbtide analyze RUN...`: judges recorded runs without root or a cluster."""

from __future__ import annotations

import contextlib
import functools
import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from ebbtide.errors import RUN_CODES, EbbtideError, ExitCode, UsageError
from ebbtide.record.files import RecordFolder
from ebbtide.untrusted.files import path_from
from harness.cli import completing, options
from harness.cli.analyze_stdin import STDIN, judge_from_stdin
from harness.cli.command import Args, Command
from harness.cli.crash import print_error
from harness.cli.option_values import note_left_out, refuse_folder_of_folders, without_files_beside
from harness.cli.rule_files import note_missing_rules

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from analysis.remote.record import RemoteRecord, RemoteStore
    from ebbtide.record.outcomes import FailOn

_MASTER = re.compile(r"local(\[(\d+|\*)(, *\d+)?\])?|local-cluster\[.+\]|yarn|(spark|k8s)://.+")
"""The masters that Spark accepts; for another one, a JVM fails to start and prints a traceback."""


def command() -> Command:
    """Declare the verb's arguments."""
    command = Command(
        "Judge run records, and write verdict.json, report.html and anomalies/ into each, in place of those that are "
        "there. Needs neither root nor a cluster. Judges every record, even after one that cannot be read, and the "
        "exit code is the worst of all.",
        codes={**RUN_CODES, 4: "wrong usage, or a record that cannot be read"},
    )
    command.argument(
        "runs",
        many=True,
        metavar="RUN",
        is_record=True,
        completes=completing.complete_record,
        help="a run record, e.g. runs/<run_id>, or a folder of records, e.g. runs, or a .tgz or .zip of them, which "
        "stays as it is. Addresses of a Hadoop file system "
        "work too, e.g. hdfs://namenode/runs; $HADOOP_CONF_DIR and $SPARK_CONF_DIR apply. With `-` alone, paths come "
        "on stdin, one a line. Each record is judged as its path comes, all in one Spark session, with one line of "
        "JSON as the answer. Records of one line, with a NUL between the paths, share their Spark jobs",
    )
    options.add_fail_on_option(command)
    options.add_judging_options(command)
    options.add_json_option(command)
    command.flag(
        "--many",
        hidden=True,
        help="with `-`: dozens of records will come. Each then takes a quarter less CPU time, except the first ones",
    )
    command.option(
        "--master",
        metavar="URL",
        default=None,
        help="the Spark master (default: this machine). Its workers must see records that are named by path",
    )
    return command


def run(args: Args) -> ExitCode:
    """Judge each record once, and return the worst exit code. Raises `UsageError`."""
    if args.master is not None and not _MASTER.fullmatch(args.master):
        allowed = "local[N], spark://HOST:PORT, yarn or k8s://..."
        raise UsageError("not a Spark master", where="--master", got=repr(args.master), allowed=allowed)
    if STDIN in args.runs:
        if len(args.runs) > 1 or args.master is not None:
            raise UsageError(
                "paths on stdin come alone", where="RUN", got=" ".join(args.runs), allowed=f"`{STDIN}` without --master"
            )
        return judge_from_stdin(many=args.many, fail_on=args.fail_on)
    if args.many:
        raise UsageError(
            "--many needs paths on stdin", where="--many", got=" ".join(args.runs), allowed=f"--many with RUN `{STDIN}`"
        )
    places = [path_or_address(text) for text in args.runs]
    paths = without_files_beside([place for place in places if isinstance(place, Path)])
    found = [record for path in paths for record in records_in(path)]
    records: dict[Path, Path] = {}
    for record in found:
        records.setdefault(record.resolve(), record)
    addresses = list(dict.fromkeys(place for place in places if isinstance(place, str)))
    return judge_all(
        [*records.values()], addresses=addresses, as_json=args.json, master=args.master, fail_on=args.fail_on
    )


def path_or_address(text: str) -> Path | str:
    """Return the local path of a folder or file:// address, else the address itself.

    Raises `UsageError` for a text that is neither, and for a file:// address of another host.
    """
    if "://" not in text:
        return path_from(text)
    try:
        address = urlsplit(text)
    except ValueError as error:
        raise UsageError(
            "not an address", where="RUN", got=f"{text!r}: {error}", allowed="a path, or hdfs://HOST:PORT/PATH"
        ) from None
    if address.scheme != "file":
        return text
    if address.netloc not in ("", "localhost"):
        raise UsageError("this file is on another host", where=text, allowed="a path, or file:///path")
    return path_from(unquote(address.path))


def records_in(path: Path) -> list[Path]:
    """Return the record at `path`, or the finished runs in this folder, by name; a note says what is left out.

    A folder with a `runs` folder stands for the runs in there. Raises `UsageError` if every run in
    the folder is still running, and if only folders in it have records.
    """
    from ebbtide.record.files import is_going
    from ebbtide.record.manifest import is_plain_cluster, is_record, read_manifest, records_of

    def is_run(record: RecordFolder) -> bool:
        """Whether there is a run to judge; a damaged record is reported when it is judged."""
        with contextlib.suppress(EbbtideError):
            return not is_plain_cluster(read_manifest(record))
        return True

    if is_record(path) or not path.is_dir():
        return [path]
    found = records_of(path) or records_of(path / "runs")
    if not found:
        refuse_folder_of_folders(path)
    runs = [record for record in found if is_run(RecordFolder(record))] or found or [path]
    judged = {record for record in runs if not is_going(RecordFolder(record))}
    if not judged:
        raise UsageError(
            "every run in this folder is still running",
            where=str(path),
            next=f"ebbtide runs --runs {shlex.quote(str(path))}",
        )
    plain = set(found) - set(runs)
    note_left_out(
        found,
        going=[record for record in runs if record not in judged],
        plain=[record for record in found if record in plain],
    )
    return [record for record in runs if record in judged]


def judge_all(
    records: Sequence[Path],
    *,
    addresses: Sequence[str] = (),
    as_json: bool = False,
    master: str | None = None,
    fail_on: FailOn = "outcome",
) -> ExitCode:
    """Judge each record, print the verdicts, and return the worst exit code.

    The output is JSON lines or a table.
    `addresses` name more records, or folders of records, on other file systems.
    """
    from ebbtide.judging_progress import Heartbeat
    from ebbtide.record.manifest import read_run
    from ebbtide.record.outcomes import exit_code_of
    from harness.cli.progress import print_saving, report_records
    from harness.cli.verdict_output import VerdictOutput

    codes: set[ExitCode] = set()
    readable: list[Path] = []
    for record in records:
        try:
            read_run(RecordFolder(record))
        except EbbtideError as error:
            codes.add(print_error(str(record), error))
        else:
            readable.append(record)
    note_missing_rules(readable)
    if readable or addresses:
        from analysis.spark.java_start import is_first_session

        first = is_first_session(master)
        with contextlib.ExitStack() as until_printed:
            with Heartbeat() as beat, contextlib.ExitStack() as copies:
                if not addresses:
                    report_records(beat, [*map(str, readable)], first=first)
                from analysis.judging.many_records import judge_many
                from analysis.judging.warm_up import load_common_classes_if_first
                from analysis.remote.record import RemoteStore
                from analysis.spark.session import session

                @functools.cache
                def spark() -> SparkSession:
                    """Return the session, which starts with the first record in which an anomaly can occur."""
                    return until_printed.enter_context(session(master))

                remote: dict[Path, RemoteRecord] = {}
                if addresses:
                    store = copies.enter_context(RemoteStore(spark()))
                    remote = {one.folder: one for one in _remote_records(store, addresses, codes)}
                    if readable or remote:
                        report_records(beat, [*map(str, [*readable, *remote.values()])], first=first)
                output = VerdictOutput(len(readable) + len(remote), as_json=as_json, fail_on=fail_on)
                for record, verdict in judge_many([*readable, *remote], spark, beat.stage, remote, output.see):
                    named = str(remote.get(record, record))
                    if isinstance(verdict, EbbtideError):
                        codes.add(print_error(named, verdict))
                    else:
                        codes.add(exit_code_of(verdict, fail_on))
                        output.add(RecordFolder(record), verdict, named=named)
                    beat.report_judged()
            output.end()
            if first and spark.cache_info().currsize:
                print_saving()
                load_common_classes_if_first(spark())
    return ExitCode.worst(codes)


def _remote_records(store: RemoteStore, addresses: Iterable[str], codes: set[ExitCode]) -> list[RemoteRecord]:
    """Return the records at some addresses.

    Print the error of a wrong address, and add its code to `codes`.
    """
    found: list[RemoteRecord] = []
    for address in addresses:
        try:
            found += store.records_in(address)
        except EbbtideError as error:
            codes.add(print_error(address, error))
    return found
