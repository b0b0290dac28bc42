"""Bad inputs, made from real ones: records, scenarios, stores and command lines, each spoiled in one place.

The same seed makes the same input, and its name says what it is.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import tomli_w

from ebbtide.scenario.kafka_settings import Place, refused_kind, settings_at
from ebbtide.scenario.model import NODE_ROLES

HOSTILE_VALUES: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64, -(2**63), 1.5, -0.0, 1e308),
    *("", " ", "..", "/", "../../outside", "a\nb", "\x1b[2J", "\x00", "[/red]", "${x}", "{{ 7*7 }}", "\u202e", "²"),
    *("x" * 5_000, "leader(t-0", "t--1", "t-99999999999", "9" * 400, "-1", "NaN", "1e9s", "<script>", "é", "4.4.0.x"),
    *([], {}, [[]], [None], {"": ""}, [1] * 100, {"a": {"b": {}}}, ["x", 1]),
)
_BYTES: tuple[tuple[str, Callable[[bytes, random.Random], bytes]], ...] = (
    ("empty", lambda content, roll: b""),
    ("cut", lambda content, roll: content[: roll.randrange(len(content) or 1)]),
    ("not UTF-8", lambda content, roll: content.replace(b"a", b"\xff\xfe", 1)),
    ("a null byte", lambda content, roll: content[: len(content) // 2] + b"\0" + content[len(content) // 2 :]),
    ("too deep", lambda content, roll: b"[" * 50_000),
    ("tables too deep", lambda content, roll: b'{"a":' * 50_000),
    ("dots too deep", lambda content, roll: b"a" + b".a" * 3_000 + b" = 1"),
    ("lists too deep", lambda content, roll: b"a = " + b"[" * 3_000),
    ("twice", lambda content, roll: content + content),
    ("a byte order mark", lambda content, roll: b"\xef\xbb\xbf" + content),
    ("UTF-16", lambda content, roll: content.decode(errors="replace").encode("utf-16")),
    ("flipped bits", lambda content, roll: _flip(content, roll)),
    ("zeros", lambda content, roll: _zero(content, roll)),
)


def _flip(content: bytes, roll: random.Random) -> bytes:
    spoiled = bytearray(content)
    for _ in range(roll.randint(1, 8)):
        if spoiled:
            spoiled[roll.randrange(len(spoiled))] ^= 1 << roll.randrange(8)
    return bytes(spoiled)


def _zero(content: bytes, roll: random.Random) -> bytes:
    at = roll.randrange(len(content) or 1)
    return content[:at] + bytes(min(200, len(content) - at)) + content[at + 200 :]


def spoil_text_file(path: Path, roll: random.Random) -> str:
    """Spoil the bytes of a file, or put something else in its place; return how."""
    if roll.random() < 0.25:
        return _replace_file(path, roll)
    name, change = roll.choice(_BYTES)
    _write(path, change(path.read_bytes(), roll))
    return name


def _replace_file(path: Path, roll: random.Random) -> str:
    path.unlink()
    match roll.choice(("gone", "pipe", "folder", "device", "outside", "itself", "forbidden")):
        case "pipe":
            os.mkfifo(path)
            return "a pipe"
        case "folder":
            path.mkdir()
            return "a folder"
        case "device":
            path.symlink_to("/dev/zero")
            return "a link to a device"
        case "outside":
            path.symlink_to("/etc/hostname")
            return "a link that leads out"
        case "itself":
            path.symlink_to(path.name)
            return "a link to itself"
        case "forbidden":
            path.symlink_to("/proc/self/mem")
            return "a link to memory"
    return "gone"


def _write(path: Path, content: bytes) -> None:
    # A new file: the old one may be a hard link to the original.
    path.unlink(missing_ok=True)
    path.write_bytes(content)


def spoil_value(tree: Any, roll: random.Random) -> str:
    """Replace, remove or add one value somewhere in decoded JSON or TOML; return which."""
    places = list(_places(tree, ""))
    inside, key, name = roll.choice(places)
    if isinstance(inside, dict) and roll.random() < 0.15:
        del inside[key]
        return f"{name} removed"
    if isinstance(inside, dict) and roll.random() < 0.1:
        other = roll.choice(("", "..", "\x1b", "x" * 300, "[/red]", "a b", "t-0", "-1"))
        inside[other] = inside.pop(key)
        return f"{name} renamed to {other[:20]!r}"
    value = roll.choice(HOSTILE_VALUES)
    inside[key] = value
    return f"{name} = {value!r:.40}"


def _places(tree: Any, where: str) -> Iterator[tuple[Any, Any, str]]:
    pairs = list(tree.items()) if isinstance(tree, dict) else list(enumerate(tree)) if isinstance(tree, list) else []
    for key, value in pairs:
        yield tree, key, f"{where}/{key}"
        yield from _places(value, f"{where}/{key}")


def spoil_json(path: Path, roll: random.Random) -> str:
    """Spoil a value in a file of JSON, or in one of its lines."""
    lines = [path.read_bytes()] if path.suffix == ".json" else path.read_bytes().splitlines()
    at = roll.randrange(len(lines)) if lines else 0
    trees = [json.loads(line) for line in lines] or [{"event": "x"}]
    how = spoil_value(trees[at], roll)
    _write(path, b"\n".join(json.dumps(tree).encode() for tree in trees) + b"\n")
    return how


def spoil_toml(path: Path, roll: random.Random) -> str:
    """Spoil a value in a TOML file."""
    tree = tomllib.loads(path.read_text())
    how = spoil_value(tree, roll)
    _write(path, tomli_w.dumps(_without_none(tree)).encode(errors="replace"))
    return how


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(one) for key, one in value.items() if one is not None}
    return [_without_none(one) for one in value if one is not None] if isinstance(value, list) else value


def spoil_table(path: Path, roll: random.Random) -> str:
    """Spoil values, columns or types of a Parquet file."""
    table = pq.read_table(path)
    name = roll.choice(table.column_names)
    at = table.column_names.index(name)
    kind = roll.choice(("dropped", "text", "null", "nulls", "extreme", "twice", "reversed", "bomb", "empty"))
    if kind == "dropped":
        table = table.drop_columns([name])
    elif kind == "text":
        table = table.set_column(
            at, name, pa.array([roll.choice(("\x1b[2J", "../..", "[/red]", "x" * 999))] * len(table))
        )
    elif kind == "null":
        table = table.set_column(at, name, pa.nulls(len(table)))
    elif kind == "nulls":
        values = table[name].to_pylist()
        table = table.set_column(at, name, pa.array([None, *values[1:]] if values else [], table[name].type))
    elif kind == "extreme" and pa.types.is_integer(table[name].type):
        most = 2 ** (table[name].type.bit_width - 1) - 1
        worst = roll.choice((-1, -most - 1, most, 0))
        table = table.set_column(at, name, pa.array([worst] * len(table), table[name].type))
    elif kind == "twice":
        table = table.append_column(name, table[name])
    elif kind == "reversed":
        table = table.take(pa.array(range(len(table) - 1, -1, -1), pa.int64()))
    elif kind == "bomb":
        table = table.slice(0, 1).take([0] * 2_000_000) if len(table) else table
    else:
        table = table.slice(0, 0)
    path.unlink()
    pq.write_table(table, path, compression="zstd")
    return f"column {name} {kind}"


def spoil_record(record: Path, seed: int) -> str:
    """Spoil one place of a record; return its name and how."""
    roll = random.Random(seed)
    files = sorted(path for path in record.rglob("*") if path.is_file())
    small = [path for path in files if path.suffix in (".json", ".jsonl", ".toml")]
    path = roll.choice(small if roll.random() < 0.5 else files)
    ways: list[Callable[[Path, random.Random], str]] = [spoil_text_file]
    if path.suffix in (".json", ".jsonl"):
        ways += [spoil_json] * 3
    elif path.suffix == ".toml":
        ways += [spoil_toml] * 3
    elif path.suffix == ".parquet":
        ways += [spoil_table] * 3
    return f"{path.relative_to(record)}: {roll.choice(ways)(path, roll)}"


def linked_copy(record: Path, to: Path) -> Path:
    """Copy a record with hard links; `spoil_record` makes new files."""
    return Path(shutil.copytree(record, to, copy_function=os.link))


def spoiled_scenario(text: str, to: Path, seed: int) -> str:
    """Write a spoiled scenario; return how it was spoiled."""
    roll = random.Random(seed)
    to.write_text(text)
    return spoil_toml(to, roll) if roll.random() < 0.75 else spoil_text_file(to, roll)


def outward_scenario(text: str, to: Path, seed: int) -> str:
    """Write a scenario with one setting that no scenario may have; return which one, and where."""
    roll = random.Random(seed)
    place = roll.choice(_PLACES)
    every = sorted(settings_at(place))
    name = roll.choice(
        [
            roll.choice([one for one in every if refused_kind(place, one) is not None] or every),
            f"{roll.choice(_PREFIXES)}{roll.choice(every)}",
            f"{roll.choice(every)}{roll.choice(('.class', '.file', '.x', 's'))}",
            roll.choice(every),
        ]
    )
    is_allowed = name in settings_at(place) and refused_kind(place, name) is None
    value = roll.choice(_REFERENCES) if is_allowed else roll.choice(("/elsewhere", "1", *_REFERENCES))
    decoded = tomllib.loads(text)
    if place == "topic":
        topic = roll.choice(sorted(decoded["topics"]))
        decoded["topics"][topic].setdefault("config", {})[name] = value
    elif place == "node":
        decoded.setdefault("cluster", {}).setdefault(f"{roll.choice(NODE_ROLES)}_properties", {})[name] = value
    else:
        client = "java" if place == "producer" else place
        decoded["producers"] = [
            {"id": 1, "topic": next(iter(decoded["topics"])), "count": 9, "client": client, "properties": {name: value}}
        ]
    to.write_text(tomli_w.dumps(decoded))
    return f"{place} {name} = {value}"


_PLACES: tuple[Place, ...] = ("node", "topic", "producer", "librdkafka")
_PREFIXES = ("listener.name.plaintext.", "config.providers.", "rsm.config.", "x.", "confluent.")
_REFERENCES = ("${file:/etc/passwd:root}", "${dir:/root:x}", "${env:HOME}", "a${x}", "1${")


_WORDS = (
    *("", " ", "-1", "0", "99999999999999999999", "9" * 400, "1e999", "nan", "²", "..", "/", "/dev/null", "/dev/zero"),
    *("x" * 5_000, "a\x1bb", "[/red]", "hdfs://[bad", "file://elsewhere/x", "a,,b", ",", "4.4.0:", "t-0:", "t-0:-1"),
    *("\udcff", "é", "--", "-", "--json", "=", "a=b", "\n", "*", "~", "$(x)", "4.4.0,4.4.0", "/proc/self/mem", "/etc"),
)


def command_line(command: list[str], options: dict[str, bool], seed: int) -> list[str]:
    """Return a command line with some wrong words; `options` says which of them take a value."""
    roll = random.Random(seed)
    words = [*command, *(roll.choice(_WORDS) for _ in range(roll.randint(0, 2)))]
    for option in roll.sample(sorted(options), min(len(options), roll.randint(0, 3))):
        words += [option, roll.choice(_WORDS)] if options[option] else [option]
    return words
