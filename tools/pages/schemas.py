"""Writes docs/schemas/NAME.json, the JSON Schemas of what verbs print with --json, and their table in docs/commands.md.

`python -m tools.pages.schemas` needs no run.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from ebbtide.record.verdict import Verdict
from harness.cli.json_outputs import RandomOutput, ReplayOutput, ShrinkOutput
from tools.pages.tables import with_table

DOCS = Path(__file__).resolve().parents[2] / "docs"

_COLUMNS = ("verbs", "prints", "schema")
Shape = Literal["one object", "one object, into a file", "one object a line", "one array"]


class JsonOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The output of some verbs with --json; `type` is that of one object, or of the array's elements."""

    name: str
    verbs: tuple[str, ...]
    shape: Shape
    type: Any


def json_outputs() -> tuple[JsonOutput, ...]:
    """Return every output, in the order of the verbs' help."""
    from analysis.advise.advice_json import AdviceOutput
    from analysis.advise.compare import AdviceComparison
    from analysis.advise.down import DownAnswer
    from analysis.explain.life import Life
    from cluster.clean import CleanOutcome
    from cluster.doctor import Check
    from cluster.images.find import BuiltImage
    from ebbtide.daemon.messages import ClusterStatus, DownOutput, FaultOutput
    from ebbtide.record.outcomes import AnalyzedRecord
    from ebbtide.record.rows import PartitionState
    from ebbtide.snapshot.model import ClusterSnapshot
    from harness.cli.json_outputs import NightOutput, SiteOutput
    from harness.cli.kafka import ReleaseRow
    from harness.cli.kafka_image import RemovedImage
    from harness.cli.runs import RecordRow
    from harness.cli.runs_compare import CompareOutput
    from harness.cli.runs_pack import PackOutput
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
        ("snapshot", ("advise --save",), "one object, into a file", ClusterSnapshot),
        ("advise-down", ("advise --down",), "one object", DownAnswer),
        ("advise-compare", ("advise BEFORE AFTER",), "one object", AdviceComparison),
        ("runs", ("runs",), line, RecordRow),
        ("runs-pack", ("runs pack",), "one object", PackOutput),
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


def schema_of(output: JsonOutput) -> bytes:
    """Return the schema of an output, of one line where it has several."""
    kind = list[output.type] if output.shape == "one array" else output.type  # type: ignore[name-defined]
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **_portable(msgspec.json.schema(kind))}
    return msgspec.json.format(msgspec.json.encode(schema, order="sorted"), indent=2) + b"\n"


def _portable(schema: Any) -> Any:
    """Return the schema with patterns of JSON Schema's regular expressions, which have no `\\Z`."""
    if isinstance(schema, dict):
        return {
            key: value.replace(r"\Z", "$") if key == "pattern" else _portable(value) for key, value in schema.items()
        }
    return [_portable(one) for one in schema] if isinstance(schema, list) else schema


def page(text: str) -> str:
    """Return docs/commands.md with a new table of the outputs; the rest of the text stays."""
    rows = [
        (", ".join(f"`{verb}`" for verb in one.verbs), one.shape, f"[{one.name}.json](schemas/{one.name}.json)")
        for one in json_outputs()
    ]
    return with_table(text, "schemas", _COLUMNS, rows)


def files() -> Mapping[Path, bytes]:
    """Return the content of every file, by its path below docs/."""
    schemas = {Path("schemas", f"{one.name}.json"): schema_of(one) for one in json_outputs()}
    return {Path("commands.md"): page((DOCS / "commands.md").read_text()).encode(), **schemas}


def main() -> int:
    """Write the files."""
    for path, content in files().items():
        target = DOCS / path
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
