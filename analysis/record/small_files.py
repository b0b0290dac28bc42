"""What the small files of a run record say; each of them is read once.

A file is read when it is first asked for, and kept. So the object is made once the record's tables are complete, and no
file of the record may change while it is in use.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import msgspec

from analysis.evidence.report import EvidenceReports, read_reports
from ebbtide.errors import EbbtideError, Problems, UsageError
from ebbtide.record.clients import ClientEvent, read_client_events
from ebbtide.record.clock import KafkaClocks, kafka_clocks, read_clock
from ebbtide.record.folder import RecordFolder
from ebbtide.record.manifest import Manifest, read_manifest_and_keys
from ebbtide.record.predictions import fitting_prediction
from ebbtide.record.steps import StepEntry, read_steps, split_composed_steps
from ebbtide.record.sums import read_sums
from ebbtide.scenario.model import Prediction, Scenario
from ebbtide.scenario.parse import decode_scenario_text, parse, read_scenario_text
from ebbtide.scenario.write import SCENARIO


class Missing(msgspec.Struct, frozen=True):
    """Stands for a part of the record that cannot be read; `why` is a clause without a full stop."""

    why: str


class SmallFiles:
    """The small files of a record; the manifest is there at once.

    Every property raises `UsageError` where its file is damaged, unless it says otherwise.
    """

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


def _in_words(problem: EbbtideError, scenario: Path) -> str:
    """Return a problem of the scenario in words; the file itself is named already."""
    where = None if problem.where in (None, str(scenario)) else f"at {problem.where}"
    return " ".join(filter(None, (problem.what, problem.got, where)))
