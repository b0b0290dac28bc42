"""What each verb prints with --json: one type for each, of which docs/schemas/ has the JSON Schemas.

`python -m tools.pages.schemas` writes them.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ebbtide.record.verdict import Verdict
from harness.replay.compare import Departure
from harness.replay.finding import RunFinding
from harness.replay.replaying import ReplaySummary
from harness.shrink.file import KeptStep

Shape = Literal["one object", "one object a line", "one array"]


class ReplayRow(msgspec.Struct, frozen=True, kw_only=True):
    """One replay. Without a record, `failure` says why it did not run or could not be judged.

    The shares and departures are those of `ebbtide replay` (docs/replay.md).
    """

    kafka: str
    failure: str | None = None
    record: str | None = None
    run_id: str | None = None
    ignored_properties: tuple[str, ...] = ()
    fidelity: float | None = None
    finding: RunFinding | None = None
    states: float | None = None
    effects: float | None = None
    verdict: float | None = None
    same: bool | None = None
    naming: dict[int, int] = {}
    departures: tuple[Departure, ...] = ()


class ReplayOutput(msgspec.Struct, frozen=True, kw_only=True):
    """A record, its replays, and the summary of each release."""

    record: str
    run_id: str
    kafka: str
    finding: RunFinding | None
    replays: tuple[ReplayRow, ...]
    releases: tuple[ReplaySummary, ...]


class ShrinkOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The file that a shrink wrote: the facts that it shows, in `shown` of `times` runs.

    `not_kept` are facts of the record that it need not show. `kept` are the steps of the record that are left. `took_s`
    is the sum of the `runs`, also of those of earlier calls; `elapsed_s` is how long the search of this call took.
    """

    file: str
    facts: tuple[str, ...]
    not_kept: tuple[str, ...]
    steps_before: int
    steps: int
    kept: tuple[KeptStep, ...]
    brokers: int
    shown: int
    times: int
    finished: bool
    gave_way: bool
    runs: int
    took_s: float
    elapsed_s: float


class RandomOutput(msgspec.Struct, frozen=True, kw_only=True):
    """A drawn scenario as TOML, the file that has it, and with --run the verdict."""

    seed: int
    kafka: str
    steps: int
    file: str | None
    scenario: str
    verdict: Verdict | None


class JsonOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The output of some verbs with --json; `type` is that of one object, or of the array's elements."""

    name: str
    verbs: tuple[str, ...]
    shape: Shape
    type: Any


def json_outputs() -> tuple[JsonOutput, ...]:
    """Return every output, in the order of the verbs' help."""
    from analysis.advise.advice_json import AdviceOutput
    from analysis.explain.life import Life
    from cluster.clean import CleanOutcome
    from cluster.doctor import Check
    from cluster.images.find import BuiltImage
    from ebbtide.daemon.messages import ClusterStatus, DownOutput, FaultOutput
    from ebbtide.record.outcomes import AnalyzedRecord
    from ebbtide.record.rows import PartitionState
    from harness.cli.kafka import ReleaseRow
    from harness.cli.kafka_image import RemovedImage
    from harness.cli.night_outputs import NightOutput, SiteOutput
    from harness.cli.runs import RecordRow
    from harness.cli.runs_compare import CompareOutput
    from harness.cli.scenarios import ShippedScenario
    from harness.cli.scenarios_check import CheckedFile
    from harness.cli.spec_outputs import SpecCheckOutput, SpecFindOutput, SpecRulesOutput, SpecVectorsOutput

    line: Shape = "one object a line"
    rows: tuple[tuple[str, tuple[str, ...], Shape, Any], ...] = (
        ("verdict", ("run", "analyze", "watch"), line, Verdict),
        ("analyze-stdin", ("analyze -",), line, AnalyzedRecord),
        ("nightly", ("nightly",), line, NightOutput),
        ("nightly-site", ("nightly site",), "one object", SiteOutput),
        ("replay", ("replay",), "one object", ReplayOutput),
        ("shrink", ("shrink",), "one object", ShrinkOutput),
        ("cluster", ("cluster up", "cluster status"), line, ClusterStatus),
        ("topic", ("cluster topic",), line, PartitionState),
        ("down", ("cluster down",), "one object", DownOutput),
        ("cluster-fault", ("cluster fault",), "one object", FaultOutput),
        ("runs-compare", ("runs compare",), "one object", CompareOutput),
        ("explain", ("explain",), "one object", Life | None),
        ("advise", ("advise",), "one object", AdviceOutput),
        ("runs", ("runs",), line, RecordRow),
        ("random", ("random",), "one object", RandomOutput),
        ("scenarios", ("scenarios",), line, ShippedScenario),
        ("scenarios-check", ("scenarios check",), line, CheckedFile),
        ("spec-check", ("spec check",), "one object", SpecCheckOutput),
        ("spec-find", ("spec find",), "one object", SpecFindOutput),
        ("spec-rules", ("spec rules",), "one object", SpecRulesOutput),
        ("spec-vectors", ("spec vectors",), "one object", SpecVectorsOutput),
        ("kafka", ("kafka list", "kafka fetch"), "one array", ReleaseRow),
        ("kafka-image", ("kafka image list", "kafka image build"), line, BuiltImage),
        ("kafka-image-remove", ("kafka image remove",), line, RemovedImage),
        ("clean", ("clean",), line, CleanOutcome),
        ("doctor", ("doctor",), "one array", Check),
    )
    return tuple(JsonOutput(name=name, verbs=verbs, shape=shape, type=type_) for name, verbs, shape, type_ in rows)
