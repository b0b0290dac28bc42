"""Writes docs/schemas/NAME.json, the JSON Schemas of what verbs print with --json, and their table in docs/commands.md.

`python -m tools.pages.schemas` needs no run.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from harness.cli.json_outputs import JsonOutput, json_outputs
from tools.pages.tables import with_table

DOCS = Path(__file__).resolve().parents[2] / "docs"

_COLUMNS = ("verbs", "prints", "schema")


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
