"""The files of a run record: the small ones, each read once, and the tables in batches.

A small file is read when it is first asked for, and kept. So the object is made once the record's tables are complete,
and no file of the record may change while it is in use. Rows are never kept. The bytes of small tables are, so that
each of their files is opened once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from analysis.evidence.report import EvidenceReports, read_reports
from analysis.record.table_files import TableFile, check_file, check_manifest
from ebbtide.errors import EbbtideError, Problems, UsageError
from ebbtide.record.clients import ClientEvent, read_client_events
from ebbtide.record.clock import KafkaClocks, kafka_clocks, read_clock
from ebbtide.record.files import ANOMALIES_DIR, RecordFolder
from ebbtide.record.manifest import Manifest, read_manifest_and_keys
from ebbtide.record.predictions import fitting_prediction
from ebbtide.record.steps import StepEntry, read_steps, split_composed_steps
from ebbtide.record.sums import read_sums
from ebbtide.record.tables import ANOMALY_SCHEMA, TABLES
from ebbtide.scenario.model import Prediction, Scenario
from ebbtide.scenario.parse import decode_scenario_text, parse, read_scenario_text
from ebbtide.scenario.write import SCENARIO
from ebbtide.untrusted.files import is_file
from ebbtide.untrusted.parquet import ParquetSource, read_batches, read_rows


class Missing(msgspec.Struct, frozen=True):
    """Stands for a part of the record that cannot be read; `why` is a clause without a full stop."""

    why: str


class RecordFiles:
    """The files of a record; the manifest is there at once.

    Every property raises `UsageError` where its file is damaged, unless it says otherwise.
    """

    explained: int | None = None
    """The value of the record that somebody wants explained; where rows are thinned out, its rows stay."""

    def __init__(self, folder: RecordFolder, manifest: Manifest, manifest_keys: frozenset[str] | None = None) -> None:
        """`manifest_keys` are the keys that manifest.json has, where they were read with it."""
        self.folder = folder
        self.manifest = manifest
        if manifest_keys is not None:
            self.manifest_keys = manifest_keys

    @classmethod
    def at(cls, folder: RecordFolder) -> Self:
        """Return the record in a folder. Raises as `read_manifest` does."""
        return cls(folder, *read_manifest_and_keys(folder))

    def __str__(self) -> str:
        """Return the path of the record, as messages name it."""
        return str(self.folder)

    @cached_property
    def manifest_keys(self) -> frozenset[str]:
        """The keys that manifest.json has."""
        return read_manifest_and_keys(self.folder)[1]

    @cached_property
    def steps(self) -> Sequence[StepEntry] | None:
        """The steps as recorded, composed ones whole; None: steps.jsonl is missing."""
        return read_steps(self.folder)

    @cached_property
    def split_steps(self) -> list[StepEntry] | None:
        """The steps, with composed ones split into their parts; None: steps.jsonl is missing."""
        return None if self.steps is None else split_composed_steps(self.steps)

    @cached_property
    def scenario(self) -> Scenario | Missing:
        """The scenario as run; `Missing` also if it cannot be read."""
        if not self.folder.has(SCENARIO):
            return Missing(f"{SCENARIO} is missing")
        path = self.folder / SCENARIO
        try:
            return parse(self._scenario_text, file=str(path), of_record=True)
        except EbbtideError as error:
            problems = error.problems if isinstance(error, Problems) else (error,)
            return Missing(f"{SCENARIO} cannot be read: {'; '.join(_in_words(one, path) for one in problems)}")

    @cached_property
    def scenario_keys(self) -> Mapping[str, Any]:
        """The keys of the scenario as written, also where it does not fit; empty if it is not TOML."""
        with contextlib.suppress(UsageError, ValueError):
            return decode_scenario_text(self._scenario_text)
        return {}

    @cached_property
    def _scenario_text(self) -> str:
        return read_scenario_text(self.folder / SCENARIO)

    @cached_property
    def sums(self) -> Mapping[str, str] | None:
        """The checksum of each file by its name; None: SHA256SUMS is missing."""
        return read_sums(self.folder)

    @cached_property
    def reports(self) -> EvidenceReports:
        """What evidence.json says; a report is None if it is missing or cannot be read."""
        return read_reports(self.folder)

    @cached_property
    def clocks(self) -> KafkaClocks:
        """How far the wall clock of the host was ahead, by clock.jsonl alone."""
        return kafka_clocks(read_clock(self.folder), None)

    @cached_property
    def client_events(self) -> Mapping[str, Sequence[ClientEvent]] | None:
        """The events of each client; None: the record has no folder of events."""
        return read_client_events(self.folder)

    @property
    def prediction(self) -> Prediction | None:
        """The scenario's prediction of this run; None also for a scenario that cannot be read."""
        return None if isinstance(self.scenario, Missing) else fitting_prediction(self.scenario, self.manifest)

    @cached_property
    def _sources(self) -> dict[str, tuple[ParquetSource, ...]]:
        return {}

    def files(self, table: str) -> tuple[ParquetSource, ...]:
        """Return the Parquet files of a table, as `RecordFolder.files` does; empty when it is missing."""
        if table not in self._sources:
            sources: dict[Path, ParquetSource] = {}

            def is_same(one: Path, other: Path) -> bool:
                both = [sources.setdefault(path, ParquetSource(path)) for path in (one, other)]
                return both[0].has_content_of(both[1])

            paths = self.folder.files(table, is_same)
            self._sources[table] = tuple(sources.get(path) or ParquetSource(path) for path in paths)
        return self._sources[table]

    @cached_property
    def checked(self) -> dict[str, list[TableFile]]:
        """The files of each table, checked by their footers; a table without files is missing.

        Raises `Problems` with everything that is wrong with the files and with the manifest, at once.
        """
        problems = check_manifest(self.folder, self.manifest)
        found: dict[str, list[TableFile]] = {table: [] for table in TABLES}
        for table, files in found.items():
            for source in self.files(table):
                if (unreadable := self.folder.why_unreadable(source.path)) is not None:
                    problems.append(unreadable)
                elif (file := check_file(source, table, problems)) is not None:
                    files.append(file)
        if problems:
            raise Problems(str(self), problems)
        return found

    @cached_property
    def row_counts(self) -> dict[str, int]:
        """The rows of each table, by the footers."""
        return {table: sum(file.rows for file in files) for table, files in self.checked.items()}

    def error_of(self, table: str, column: str, got: object, allowed: str) -> UsageError:
        """Return the error to raise for a value that a column of a table may not have."""
        where = f"{self}: table {table}, column {column}"
        shown = "null" if got is None else repr(got)
        return UsageError("a value that the record format does not have", where=where, got=shown, allowed=allowed)

    def error_of_null(self, table: str, column: str) -> UsageError:
        """Return the error to raise for a null in a column that has none."""
        return self.error_of(table, column, None, f"{TABLES[table].field(column).type}, never null")

    def sources(self) -> dict[str, ParquetSource]:
        """Return the files of all tables, by their names in the record."""
        files = [file for table in TABLES for file in self.files(table) if is_file(file.path)]
        return {self.folder.name_of(file.path): file for file in files}

    @contextmanager
    def kept_open(self, *tables: str) -> Iterator[None]:
        """Let all who read these tables until the end of the block share one open of each file."""
        with ExitStack() as until_done:
            for table in tables:
                for file in self.files(table):
                    until_done.enter_context(file.kept_open())
            yield

    def has(self, table: str) -> bool:
        """Whether the record has a file of the table."""
        return bool(self.files(table))

    def batches(
        self, table: str, columns: Sequence[str] | None = None, where: pc.Expression | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table in batches that are not empty.

        All columns and all rows are read by default. A nullable column that a file lacks reads as null.
        """
        files = self.files(table)
        ahead = {"batch_readahead": 2, "fragment_readahead": 1}
        yield from read_batches(files, table, schema=TABLES[table], columns=columns, where=where, **ahead)

    def rows(self, table: str, kind: type[T], where: pc.Expression | None = None) -> Iterator[T]:
        """Yield the rows of a table as structs, whose fields are the columns to read."""
        for batch in self.batches(table, kind.__struct_fields__, where):
            yield from msgspec.convert(batch.to_pylist(), list[kind])  # type: ignore[valid-type]

    def items(self, columns: Sequence[str], where: pc.Expression) -> pa.Table:
        """Return rows of anomalies/, which the reconciliation has written; empty where it is missing."""
        files = self.folder.files(ANOMALIES_DIR)
        return read_rows(files, ANOMALIES_DIR, schema=ANOMALY_SCHEMA, columns=columns, where=where)


def _in_words(problem: EbbtideError, scenario: Path) -> str:
    """Return a problem of the scenario in words; the file itself is named already."""
    where = None if problem.where in (None, str(scenario)) else f"at {problem.where}"
    return " ".join(filter(None, (problem.what, problem.got, where)))


T = TypeVar("T", bound=msgspec.Struct)


def of_partition(topic: str, partition: int) -> pc.Expression:
    """Match the rows of one partition."""
    return (pc.field("topic") == topic) & (pc.field("partition") == partition)
