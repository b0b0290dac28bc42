"""Writes docs/schemas/NAME.json, the JSON Schemas of what verbs print with --json, and the table of docs/json.md.

`python -m tools.pages.schemas` needs no run.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from harness.cli.json_outputs import JsonOutput, json_outputs

DOCS = Path(__file__).resolve().parents[2] / "docs"

_HEAD = """# JSON output

With `--json`, a verb prints data instead of text. Progress and errors go to stderr, and exit codes are
the same. Verbs that run clusters print their objects at the end. Two have no `--json`: `cluster
exec` runs your command, and `scenarios show` prints TOML.

Each output has a [JSON Schema](https://json-schema.org). Its keys stay within a major version of
Ebbtide, and new keys may be added. Unknown values are null, or their keys are missing.

`ebbtide analyze -` judges records whose paths come on stdin, one a line, in one Spark session. It
answers each line at once. A line may have several paths, with a NUL between them. Their records
share Spark jobs, which takes less time, and each has its answer. `ebbtide run --no-judge` only
records: such a process, or another host, judges later.

| verbs | prints | schema |
|---|---|---|
"""


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


def page() -> str:
    """Return the page that lists the outputs."""
    rows = [
        f"| {', '.join(f'`{verb}`' for verb in one.verbs)} | {one.shape} | [{one.name}.json](schemas/{one.name}.json) |"
        for one in json_outputs()
    ]
    return _HEAD + "\n".join(rows) + "\n"


def files() -> Mapping[Path, bytes]:
    """Return the content of every file, by its path below docs/."""
    schemas = {Path("schemas", f"{one.name}.json"): schema_of(one) for one in json_outputs()}
    return {Path("json.md"): page().encode(), **schemas}


def main() -> int:
    """Write the files."""
    for path, content in files().items():
        target = DOCS / path
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
