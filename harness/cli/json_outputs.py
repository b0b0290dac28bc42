"""What each verb prints with --json: one type for each, of which docs/schemas/ has the JSON Schemas.

`python -m tools.pages.schemas` writes them.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from harness.replay.compare import Departure
from harness.replay.finding import RunFinding
from harness.replay.replaying import ReplaySummary

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

    `not_kept` are facts of the record that it need not show.
    """

    file: str
    facts: tuple[str, ...]
    not_kept: tuple[str, ...]
    steps_before: int
    steps: int
    brokers: int
    shown: int
    times: int
    finished: bool
    gave_way: bool
    runs: int
    took_s: float


class JsonOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The output of some verbs with --json; `type` is that of one object, or of the array's elements."""

    name: str
    verbs: tuple[str, ...]
    shape: Shape
    type: Any


def json_outputs() -> tuple[JsonOutput, ...]:
    """Return every output, in the order of the verbs' help."""
    from analysis.explain.life import Life
    from cluster.clean import CleanOutcome
    from cluster.doctor import Check
    from cluster.images.find import BuiltImage
    from ebbtide.daemon.messages import ClusterStatus
    from ebbtide.record.verdict import Verdict
    from harness.cli.kafka import ReleaseRow
    from harness.cli.runs import RecordRow
    from harness.cli.scenarios import ShippedScenario
    from harness.cli.validate import CheckedFile

    line: Shape = "one object a line"
    return (
        JsonOutput(name="verdict", verbs=("run", "analyze", "watch"), shape=line, type=Verdict),
        JsonOutput(name="replay", verbs=("replay",), shape="one object", type=ReplayOutput),
        JsonOutput(name="shrink", verbs=("shrink",), shape="one object", type=ShrinkOutput),
        JsonOutput(name="cluster", verbs=("cluster up", "cluster status"), shape=line, type=ClusterStatus),
        JsonOutput(name="explain", verbs=("explain",), shape="one object", type=Life),
        JsonOutput(name="runs", verbs=("runs",), shape=line, type=RecordRow),
        JsonOutput(name="scenarios", verbs=("scenarios",), shape=line, type=ShippedScenario),
        JsonOutput(name="validate", verbs=("validate",), shape=line, type=CheckedFile),
        JsonOutput(name="kafka", verbs=("kafka list",), shape="one array", type=ReleaseRow),
        JsonOutput(name="image", verbs=("image list",), shape=line, type=BuiltImage),
        JsonOutput(name="clean", verbs=("clean",), shape=line, type=CleanOutcome),
        JsonOutput(name="doctor", verbs=("doctor",), shape="one array", type=Check),
    )
