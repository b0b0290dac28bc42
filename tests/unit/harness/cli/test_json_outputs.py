"""What verbs print with --json is what docs/schemas/ says, key by key."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from checkout import ROOT
from daemon_up import Up

from cluster.clean import CleanOutcome
from cluster.images.find import BuiltImage
from ebbtide.record.verdict import VERDICT
from harness.cli.json_outputs import JsonOutput, ReplayOutput, ReplayRow, ShrinkOutput, json_outputs
from harness.cli.main import main
from tools.pages import schemas

OUTPUTS = {one.name: one for one in json_outputs()}
LOST = ROOT / "tests" / "data" / "runs" / "last-replica-standing-3.9.1"


def test_the_schemas_are_those_of_the_outputs() -> None:
    for path, content in schemas.files().items():
        assert (schemas.DOCS / path).read_bytes() == content, "run: python -m tools.pages.schemas"


def test_the_program_writes_every_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "DOCS", tmp_path)
    assert schemas.main() == 0
    assert {path.relative_to(tmp_path) for path in tmp_path.rglob("*.*")} == set(schemas.files())


def test_every_flag_is_in_the_list() -> None:
    flags = {path.stem for path in (ROOT / "harness" / "cli").glob("*.py") if '.flag("--json"' in path.read_text()}
    listed = {verb.split()[0] for one in OUTPUTS.values() for verb in one.verbs}
    described_in_words = {"advise"}
    assert flags == listed | described_in_words


def breaks_of(schema: dict[str, Any], value: Any, defs: dict[str, Any], place: str = "$") -> Iterator[str]:
    """Where a value breaks its schema: the part of JSON Schema that msgspec writes."""
    if "$ref" in schema:
        schema = defs[schema["$ref"].rsplit("/", 1)[-1]]
    if "anyOf" in schema:
        tries = [list(breaks_of(one, value, defs, place)) for one in schema["anyOf"]]
        yield from () if [] in tries else tries[0]
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{place}: {value!r} is none of {schema['enum']}"
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool}
    kind = schema.get("type")
    if kind == "null":
        yield from () if value is None else (f"{place}: {value!r} is not null",)
    elif kind and (not isinstance(value, kinds[kind]) or (isinstance(value, bool) and kind != "boolean")):
        yield f"{place}: {value!r} is no {kind}"
    elif kind == "object":
        known, other = schema.get("properties", {}), schema.get("additionalProperties")
        yield from (f"{place}: {key} is missing" for key in schema.get("required", ()) if key not in value)
        for key, one in value.items():
            if key in known:
                yield from breaks_of(known[key], one, defs, f"{place}.{key}")
            elif isinstance(other, dict):
                yield from breaks_of(other, one, defs, f"{place}.{key}")
            elif known:
                yield f"{place}: {key} is in no schema"
    elif kind == "array" and isinstance(schema.get("items"), dict):
        for at, one in enumerate(value):
            yield from breaks_of(schema["items"], one, defs, f"{place}[{at}]")


def assert_fits(output: JsonOutput, printed: str) -> list[Any]:
    """Check each printed object against the schema in docs/; returns them."""
    schema = json.loads((ROOT / "docs" / "schemas" / f"{output.name}.json").read_text())
    texts = printed.splitlines() if output.shape == "one object a line" else [printed]
    values = [json.loads(text) for text in texts]
    assert values != []
    for value in values:
        assert list(breaks_of(schema, value, schema.get("$defs", {}))) == []
    return values


def test_a_wrong_value_breaks_its_schema() -> None:
    schema = json.loads((ROOT / "docs" / "schemas" / "clean.json").read_text())
    for wrong in ({}, {"run_id": 1}, {"run_id": "r", "live": "no"}, {"run_id": "r", "undone": [1]}, {"x": 1}):
        assert list(breaks_of(schema, wrong, schema["$defs"])) != []


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("scenarios", "scenarios --json"),
        ("kafka", "kafka list --json"),
        ("runs", f"runs {LOST.parent} --json"),
        ("explain", f"explain {LOST} --json"),
    ],
)
def test_what_a_verb_prints_fits_its_schema(capsys: pytest.CaptureFixture[str], name: str, line: str) -> None:
    main(line.split())
    assert_fits(OUTPUTS[name], capsys.readouterr().out)


def test_a_recorded_verdict_fits_its_schema() -> None:
    for record in LOST.parent.iterdir():
        assert_fits(OUTPUTS["verdict"], json.dumps(json.loads((record / VERDICT).read_text())))


def test_checked_files_fit_their_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(LOST / "scenario.toml", good := tmp_path / "good.toml")
    (bad := tmp_path / "bad.toml").write_text('name = "x"\n[[producers]]\nacks = -1\n')
    main(["validate", str(good), str(bad), "--json"])
    first, second = assert_fits(OUTPUTS["validate"], capsys.readouterr().out)
    assert (first["valid"], second["valid"]) == (True, False)
    acks = next(one for one in second["problems"] if one["where"] == "producers[0].acks")
    assert (acks["got"], acks["line"]) == ("-1", 3)
    assert re.search(r'-1 is "all"', acks["allowed"])


def test_the_status_of_a_cluster_fits_its_schema(up: Up, capsys: pytest.CaptureFixture[str]) -> None:
    main(["cluster", "status", "--json"])
    [status] = assert_fits(OUTPUTS["cluster"], capsys.readouterr().out)
    assert status["partitions"][0]["leader"] == 2
    assert status["nodes"]["broker-1"]["registration"] == "unfenced"


def test_what_clean_undid_fits_its_schema(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = [CleanOutcome(run_id="a", undone=("volume x",)), CleanOutcome(run_id="b", failed=("no",))]
    monkeypatch.setattr("cluster.clean.clean", lambda **_: outcomes)
    assert main(["clean", "--json"]) == 3
    assert len(assert_fits(OUTPUTS["clean"], capsys.readouterr().out)) == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("image", BuiltImage(kafka="4.3.1", reference="ebbtide/kafka:4.3.1", id="sha256:x", size_bytes=1)),
        (
            "replay",
            ReplayOutput(
                record="r",
                run_id="r",
                kafka="3.9.1",
                finding=None,
                replays=(ReplayRow(kafka="3.9.1", failure="no room"), ReplayRow(kafka="3.9.1", naming={1: 2})),
                releases=(),
            ),
        ),
        (
            "shrink",
            ShrinkOutput(
                file="x.toml",
                facts=("lost",),
                not_kept=(),
                steps_before=9,
                steps=3,
                brokers=3,
                shown=3,
                times=3,
                finished=True,
                gave_way=False,
                runs=9,
                took_s=1.5,
            ),
        ),
    ],
)
def test_an_output_that_needs_a_cluster_fits_its_schema(name: str, value: Any) -> None:
    assert_fits(OUTPUTS[name], msgspec.json.encode(value).decode())
