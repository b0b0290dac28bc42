"""`ebbtide runs [compare|pack]`: lists the run records in a folder, newest first."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ebbtide.errors import ExitCode
from ebbtide.folders import walk
from ebbtide.record.files import RecordFolder
from ebbtide.record.verdict import Outcome, PredictionKind, Verdict
from ebbtide.suggestions import did_you_mean
from harness.cli import options
from harness.cli.command import Args, Group
from harness.cli.output import print_json, print_table

_BLOCK_BYTES = 512
"""The unit of st_blocks, whatever the file system's block size (POSIX)."""


def command() -> Group:
    """Declare the verb's arguments."""
    command = Group(
        "List the run records in a folder, newest first, with their outcomes and sizes.",
        dest="action",
        metavar="ACTION",
        runs_bare=True,
        hint=_hint_on_folder,
    )
    command.lazy_action("compare", "harness.cli.runs_compare", help="put runs on one time axis, and say what differs")
    command.lazy_action("pack", "harness.cli.runs_pack", help="pack a run record into a .tgz, for another machine")
    options.add_runs_option(command)
    command.records.append("runs")
    options.add_json_option(command)
    return command


def _hint_on_folder(word: str, actions: Sequence[str]) -> str:
    """Return what follows `unknown action` for a word that may be meant as a folder, or as an action."""
    is_there = Path(word).exists()
    return f", did you mean `ebbtide runs --runs {shlex.quote(word)}`?" if is_there else did_you_mean(word, actions)


def run(args: Args) -> ExitCode:
    """Print the list of runs.

    Raises `UsageError` if the folder is missing, or is something else.
    """
    from ebbtide.errors import UsageError
    from ebbtide.record.manifest import MANIFEST, is_record
    from ebbtide.shown_text import plural
    from ebbtide.untrusted.files import is_folder

    directory = args.runs
    first = "ebbtide run last-replica-standing --kafka 3.9.1"
    first += "" if directory == Path("runs") else f" --runs {shlex.quote(str(directory))}"
    if not directory.is_dir():
        raise UsageError("no such folder", where=str(directory), next=first)
    if (directory / "history.jsonl").is_file() and (directory / "runs").is_dir():
        raise UsageError(
            "this is a store of nights",
            where=str(directory),
            next=f"ebbtide runs --runs {shlex.quote(str(directory / 'runs'))}",
        )
    try:
        inner = [directory] if is_record(directory) else directory.iterdir()
        folders = [folder for folder in inner if is_folder(folder) and not folder.name.startswith(".")]
    except OSError as error:
        raise UsageError("the folder cannot be read", where=str(directory), got=error.strerror) from None
    has_records = any(map(is_record, folders))
    rows = sorted(map(_row, folders if has_records else ()), key=lambda row: row.start_ns or 0, reverse=True)
    if args.json:
        for row in rows:
            print_json(row)
        return ExitCode.AS_PREDICTED
    if not rows:
        other = f": {plural(len(folders), 'folder')} without {MANIFEST}" if folders else ""
        print(f"no run records in {directory}{other}\nnext: {first}")
        return ExitCode.AS_PREDICTED
    _print(rows, first)
    return ExitCode.AS_PREDICTED


class RecordRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One record of the list.

    A damaged record has only `why`, and what to do `next`. A record that was not judged has no outcome and no counts,
    and a count that the verdict does not know is missing. `own_lost` is of
    the user's own producers. `replay_of` is the run id of the replayed record.
    `releases` are those that nodes ran, one after the other: an upgrade has several. `plain`
    marks a cluster without a scenario, which has nothing to judge. `bytes` is the record's size on disk.
    """

    record: str
    bytes: int
    run_id: str
    scenario: str | None = None
    replay_of: str | None = None
    kafka: str | None = None
    kafka_assumed: bool = False
    releases: tuple[str, ...] = ()
    features_asked: dict[str, int] = {}
    status: str
    start_ns: int | None
    outcome: Outcome | None = None
    prediction: PredictionKind | None = None
    acked: int | None = None
    lost: int | None = None
    own_lost: int | None = None
    why: str | None = None
    next: str | None = None
    plain: bool = False


def _row(folder: Path) -> RecordRow:
    from ebbtide.errors import EbbtideError
    from ebbtide.record.files import is_going
    from ebbtide.record.manifest import NoRecord, is_plain_cluster, read_manifest
    from ebbtide.record.verdict import read_verdict, unfinished_verdict
    from ebbtide.scenario.parse import requested_levels
    from ebbtide.scenario.write import SCENARIO
    from ebbtide.shown_text import shown_name

    size_bytes, record = _size(folder), RecordFolder(folder)
    try:
        manifest = read_manifest(record)
    except EbbtideError as error:
        return RecordRow(
            record=shown_name(folder),
            bytes=size_bytes,
            run_id=folder.name,
            status="damaged",
            start_ns=None,
            why=error.what,
            next=f"ls {shlex.quote(str(folder))}" if isinstance(error, NoRecord) else error.next,
        )
    verdict = read_verdict(record)
    if verdict is not None and verdict == unfinished_verdict(manifest.run_id):
        verdict = None
    acked, lost = judged_counts(record, verdict) if verdict else (None, None)
    own = sum(one.lost for one in verdict.own_losses) if verdict and verdict.own_producers else None
    return RecordRow(
        record=shown_name(folder),
        bytes=size_bytes,
        run_id=manifest.run_id,
        scenario=manifest.scenario,
        replay_of=manifest.replay_of,
        kafka=manifest.kafka,
        kafka_assumed=manifest.kafka_assumed,
        releases=manifest.named_path if manifest.kafka is not None else (),
        features_asked=dict(requested_levels(record / SCENARIO)),
        status="running" if is_going(record) else manifest.status,
        start_ns=manifest.start_ns,
        outcome=verdict.outcome if verdict else None,
        prediction=verdict.prediction if verdict else None,
        acked=acked,
        lost=lost,
        own_lost=own,
        plain=is_plain_cluster(manifest),
    )


def _size(folder: Path) -> int:
    """Return the folder's size on disk.

    The volume images that a killed run leaves are sparse.
    """
    size_bytes = 0
    for entry in walk(folder):
        # A run that is still running renames and removes files.
        with contextlib.suppress(OSError):
            size_bytes += entry.stat(follow_symlinks=False).st_blocks * _BLOCK_BYTES
    return size_bytes


def _print(rows: list[RecordRow], first: str) -> None:
    """Print the table, what is wrong with damaged records, and what to type next: `first` where none can be judged."""
    from ebbtide.record.outcomes import word_of
    from ebbtide.releases.known_releases import minor_of, shown_path

    def cells(row: RecordRow) -> dict[str, str]:
        unjudged = "running" if row.status == "running" else "plain cluster" if row.plain else "not judged"
        outcome = word_of(row.outcome, row.prediction) if row.outcome else "damaged" if row.why else unjudged
        counts = [shown_count(one) if row.outcome else "-" for one in (row.acked, row.lost)]
        path = (f"{minor_of(row.kafka)}.?",) if row.kafka and row.kafka_assumed else row.releases
        more = [row.scenario] if row.scenario and row.scenario not in row.record else []
        more += ["replay"] if row.replay_of else []
        return {
            "outcome": f"{outcome} ({row.status})" if row.status in ("interrupted", "failed") else outcome,
            "acked": counts[0],
            "lost": counts[1],
            "yours lost": f"{row.own_lost or 0:,}",
            "size": f"{row.bytes / 2**20:,.1f} MiB",
            "kafka": shown_path(path, is_assumed=False, levels=row.features_asked) if path else "-",
            "run": f"{shlex.quote(row.record)} ({', '.join(more)})" if more else shlex.quote(row.record),
        }

    table = [cells(row) for row in rows]
    hidden = set() if any(row.own_lost for row in rows) else {"yours lost"}
    hidden |= {"kafka"} if all(one["kafka"] in one["run"] for one in table) else set()
    headers = [name for name in table[0] if name not in hidden]
    print_table(headers, [[one[name] for name in headers] for one in table])
    if any(row.kafka_assumed for row in rows):
        print("(?: the patch of a watched cluster is not known; the judge assumes the newest)")
    for row in rows:
        if row.why is not None:
            print(f"{shlex.quote(row.record)}: {row.why}")
            print(f"  next: {row.next}")
    next_ = ["ebbtide explain RUN    (a record that it lost)"] if any(row.lost or row.own_lost for row in rows) else []
    if any(row.why is None and not row.plain and row.status != "running" for row in rows):
        next_.append("ebbtide analyze RUN    (judges it again)")
    print("\nnext:", "\n      ".join(next_ or [f"{first}    (a run to judge)"]))


def judged_counts(record: RecordFolder, verdict: Verdict) -> tuple[int | None, int | None]:
    """Return how many records brokers acked and how many are lost; None where that is not known."""
    from analysis.sentences.words import count_lost, has_sends
    from ebbtide.record.verdict import count_acked_by_brokers

    acked = count_acked_by_brokers(verdict.counts, verdict.coverage) if has_sends(record, verdict) else None
    return acked, count_lost(verdict)


def shown_count(count: int | None) -> str:
    """Return a count, or that it is not known."""
    return "?" if count is None else f"{count:,}"
