"""Judges many run records in the same Spark jobs, some hundred at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.judging.one_record import conclude, prepare_record
from analysis.remote.record import NO_COPIES, Copies, RemoteRecord
from ebbtide.errors import EbbtideError, HarnessError
from ebbtide.record.files import RecordFolder
from ebbtide.record.verdict import Verdict

if TYPE_CHECKING:
    from analysis.items.on_spark import Spark
    from analysis.reconcile.model import Reconciliation
    from analysis.record.record import Record

Stage = Callable[[str], None]
"""Is called with each stage of the work, for a display."""

Seen = Callable[["Record", Verdict], None]
"""Is called with each judged record and its verdict."""

BATCH = 200
"""Records in the same jobs; the facts of all of them are in memory at once."""

_SHOWN_MAX = 300


class Bug(HarnessError):
    """A bug in Ebbtide that shows with one record; it stops no other record.

    `error` is what was raised.
    """

    def __init__(self, record: RecordFolder, error: Exception) -> None:
        self.error = error
        what = "the record cannot be judged because of a bug in Ebbtide"
        super().__init__(what, where=str(record), got=f"{type(error).__name__}: {error}"[:_SHOWN_MAX])


def judge_many(
    records: Sequence[Path],
    spark: Spark,
    stage: Stage = lambda _: None,
    remote: Copies = NO_COPIES,
    seen: Seen = lambda *_: None,
) -> Iterator[tuple[Path, Verdict | EbbtideError]]:
    """Yield each record with its verdict or its error, in the order given.

    `seen` is called with each judged record before that, so that nobody needs to read it again.
    verdict.json, report.html and anomalies/ of each record are written. A copy is made
    when its turn comes, and is kept until the next one is asked for; by then, what judging wrote to
    it is in the record.
    """
    for first in range(0, len(records), BATCH):
        yield from _judge_batch(records[first : first + BATCH], spark, stage, remote, seen)


def judge(record: Path, spark: Spark, stage: Stage = lambda _: None) -> Verdict:
    """Judge one record. Raises the error of a record that cannot be judged."""
    ((_, end),) = judge_many([record], spark, stage)
    if isinstance(end, EbbtideError):
        raise end
    return end


def _judge_batch(
    batch: Sequence[Path], spark: Spark, stage: Stage, remote: Copies, seen: Seen
) -> Iterator[tuple[Path, Verdict | EbbtideError]]:
    from analysis.items import check_record

    runs: dict[Path, Record] = {}
    errors: dict[Path, EbbtideError] = {}
    stage("reading")
    for record in batch:
        try:
            prepared = _prepare(record, remote.get(record))
            check_record(prepared)
            runs[record] = prepared
        except EbbtideError as error:
            errors[record] = error
        except Exception as error:
            errors[record] = Bug(RecordFolder(record), error)
    found = _reconcile([*runs.values()], spark, stage)
    stage("judging")
    for record in batch:
        copied = remote.get(record)
        done: Verdict | EbbtideError
        ended: Reconciliation | EbbtideError = errors[record] if record in errors else found[record]
        try:
            done = ended if isinstance(ended, EbbtideError) else _conclude(runs.pop(record), ended, copied, seen)
        except EbbtideError as error:
            done = error
        except Exception as error:
            done = Bug(RecordFolder(record), error)
        if copied is not None and isinstance(done, EbbtideError) and not isinstance(done, Bug):
            done = copied.error_on_record(done)
        yield record, done
        if copied is not None:
            copied.drop()


def _prepare(folder: Path, copied: RemoteRecord | None) -> Record:
    if copied is None:
        return prepare_record(RecordFolder(folder))
    copied.fetch()
    record = prepare_record(RecordFolder(folder))
    # Executors see the completed tables at the record's own address.
    copied.put_back()
    record.remote = copied
    return record


def _conclude(record: Record, reconciliation: Reconciliation, copied: RemoteRecord | None, seen: Seen) -> Verdict:
    from analysis.report.html import write_report

    verdict = conclude(record, reconciliation)
    write_report(record, verdict, named=None if copied is None else copied.address)
    if copied is not None:
        copied.put_back()
    seen(record, verdict)
    return verdict


def _reconcile(runs: Sequence[Record], spark: Spark, stage: Stage) -> dict[Path, Reconciliation | EbbtideError]:
    """Reconcile all runs at once; if the jobs fail, each by itself."""
    from analysis.items import reconcile_checked

    if not runs:
        return {}
    try:
        return {run.folder.path: one for run, one in zip(runs, reconcile_checked(spark, runs, stage), strict=True)}
    except EbbtideError as error:
        if len(runs) == 1:
            return {runs[0].folder.path: error}
    return {path: one for run in runs for path, one in _reconcile([run], spark, stage).items()}
