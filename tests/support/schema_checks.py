"""Compares what a verb prints with the JSON Schema in docs/."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from checkout import ROOT

from tools.pages.schemas import JsonOutput


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
