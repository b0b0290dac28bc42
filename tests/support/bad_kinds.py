"""Bad inputs by their kind: numbers without end, texts that are not UTF-8, holes, deep folders, devices, odd proofs.

`bad_inputs` spoils any value of an input; these go further in one direction. The same seed makes the same input, and
its name says what it is.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from bad_inputs import HOSTILE_VALUES
from deep_folders import nest

DIGITS = (1_001, 4_301, 5_000, 40_000)
"""Python's limit is 4,300."""
_HOLE_BYTES = 8 << 30
_COUNTS = (10**9, 10**12, 2**31 - 1, 2**63 - 1, -(2**63))
_NUMBER = re.compile(rb"(?<![\w.-])\d+(?![\w.-])")

Kind = Callable[[Path, random.Random], str]


def endless_number(record: Path, roll: random.Random) -> str:
    """Give a number of a file of text thousands of digits: as a number, as a part of a text, or in hexadecimal."""
    path = _text_file(record, roll)
    return f"{path.name}: {_put_number(path, roll, b'9' * roll.choice(DIGITS))}"


def count_without_bounds(record: Path, roll: random.Random) -> str:
    """Give a number of a file of text a size that no run has."""
    path = _text_file(record, roll)
    return f"{path.name}: {_put_number(path, roll, str(roll.choice(_COUNTS)).encode())}"


def many_partitions(record: Path, roll: random.Random) -> str:
    """Let the manifest say that the topics have partitions without end."""
    path, count = record / "manifest.json", roll.choice(_COUNTS)
    manifest = json.loads(path.read_text())
    for topic in manifest["topics"].values():
        topic["partitions"] = count
    _write(path, json.dumps(manifest).encode())
    return f"{count} partitions"


def not_utf8(record: Path, roll: random.Random) -> str:
    """Put bytes that are not UTF-8 into a column of texts."""
    files = sorted(record.rglob("*.parquet"))
    roll.shuffle(files)
    for path in files:
        table = pq.read_table(path)
        columns = [name for name in table.column_names if pa.types.is_string(table[name].type)]
        if columns and len(table):
            name = roll.choice(columns)
            values = pa.array([roll.choice((b"\xff\xfe", b"\xc3\x28", b"t\x80"))] * len(table), pa.binary())
            texts = pa.Array.from_buffers(pa.string(), len(values), values.buffers())
            path.unlink()
            pq.write_table(table.set_column(table.column_names.index(name), name, texts), path)
            return f"{path.name}: {name} is not UTF-8"
    return "nothing"


def long_lists(record: Path, roll: random.Random) -> str:
    """Give lists of a table thousands of elements."""
    for path in roll.sample(files := sorted(record.rglob("*.parquet")), len(files)):
        table = pq.read_table(path)
        columns = [name for name in table.column_names if pa.types.is_list(table[name].type)]
        if columns and len(table):
            name = roll.choice(columns)
            lists = pa.array([list(range(20_000))] * min(50, len(table)), table[name].type)
            path.unlink()
            table = table.slice(0, len(lists))
            pq.write_table(table.set_column(table.column_names.index(name), name, lists), path, compression="zstd")
            return f"{path.name}: {name} has long lists"
    return "nothing"


def hole(record: Path, roll: random.Random) -> str:
    """Make a file as long as 8 GiB, which take no place on the disk."""
    path = roll.choice(sorted(one for one in record.rglob("*") if one.is_file()))
    content = path.read_bytes()
    _write(path, content)
    os.truncate(path, _HOLE_BYTES)
    return f"{path.relative_to(record)}: a hole"


def deep_folder(record: Path, roll: random.Random) -> str:
    """Nest folders deeper than a path may be long."""
    below = roll.choice(sorted(one for one in record.rglob("*") if one.is_dir()))
    nest(below / "deep", roll.choice((30, 1_200)))
    return f"{below.relative_to(record)}/deep"


def odd_proof(record: Path, roll: random.Random) -> str:
    """Put a value of another shape into a step's proof."""
    path = record / "steps.jsonl"
    steps = [json.loads(line) for line in path.read_text().splitlines()]
    step = roll.choice([one for one in steps if one.get("proof")])
    key = roll.choice([*step["proof"], "cuts", "logs", "dropped", "probe", "parts", "to"])
    odd = ["1>2", "1", "1>2>3", "x>y", ">", "1>99999999999999999999", ["1", "2"], {"a": "1>2"}]
    step["proof"][key] = roll.choice([*HOSTILE_VALUES, *odd, odd, [[1, 2, 3]], [[1], [2]]])
    _write(path, "".join(json.dumps(one) + "\n" for one in steps).encode())
    return f"proof.{key} = {step['proof'][key]!r:.40}"


def special_file(record: Path, roll: random.Random) -> str:
    """Put something that is no file in the place of a file, or beside it."""
    path = roll.choice(sorted(one for one in record.rglob("*") if one.is_file()))
    if roll.random() < 0.5:
        path = path.with_name(f"more-{path.name}")
    path.unlink(missing_ok=True)
    target = roll.choice(("/dev/zero", "/dev/tty", "/proc/kmsg", "/proc/self/fd/0", "/etc", "..", "pipe", "socket"))
    if target == "pipe":
        os.mkfifo(path)
    elif target == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            short = f"/proc/self/fd/{(folder := os.open(path.parent, os.O_PATH))}/{path.name}"
            made.bind(short)
            os.close(folder)
    else:
        path.symlink_to(target)
    return f"{path.relative_to(record)}: {target}"


def endless_lines(record: Path, roll: random.Random) -> str:
    """Put a compressed log of newlines into the record."""
    (record / "logs").mkdir(exist_ok=True)
    path = record / "logs" / roll.choice(("broker-1.log.gz", "controller-100.log.gz", "producer-1.log.gz"))
    _write(path, gzip.compress(b"\n" * (64 << 20), 1))
    return f"{path.name}: newlines"


def added_file(record: Path, roll: random.Random) -> str:
    """Add a second copy of a file, or one that a record may have."""
    files = sorted(one for one in record.rglob("*.parquet"))
    path = roll.choice(files)
    name = roll.choice(("wire.jsonl", "quorum.jsonl", "clock.jsonl", "clients/producer-9.jsonl"))
    if roll.random() < 0.5:
        shutil.copy(path, path.with_name(f"{path.stem} copy.parquet"))
        return f"{path.name} twice"
    _write(record / name, roll.choice((b"{}\n", b"[]\n", b"9" * 5_000 + b"\n", b"\xff\n", b'{"at_ns": "x"}\n')))
    return f"{name} added"


KINDS: tuple[Kind, ...] = (
    *(endless_number, endless_number, count_without_bounds, many_partitions, not_utf8, long_lists, hole),
    *(deep_folder, odd_proof, odd_proof, special_file, endless_lines, added_file),
)


def spoil_by_kind(record: Path, seed: int) -> str:
    """Spoil a record in the way that the seed names; return how."""
    kind = KINDS[seed % len(KINDS)]
    return f"{kind.__name__}: {kind(record, random.Random(seed))}"


def endless_scenario(text: str, seed: int) -> str:
    """Return a scenario with a number of thousands of digits."""
    roll = random.Random(seed)
    digits = roll.choice(("9" * roll.choice(DIGITS), "0x" + "f" * roll.choice(DIGITS), "1_" * 4_400 + "1"))
    found = list(re.finditer(r"(?<![\w.])\d+(?![\w.])", text))
    quoted = list(re.finditer(r'"[^"\n]*"', text))
    if quoted and roll.random() < 0.4:
        at = roll.choice(quoted)
        return f'{text[: at.start()]}"{roll.choice(("", "3.9.", ">=", "broker("))}{digits}"{text[at.end() :]}'
    at = roll.choice(found)
    return text[: at.start()] + digits + text[at.end() :]


PLACES = (
    *("/proc/kmsg", "/proc/self/fd/0", "/proc/self/fd", "/proc/1/root", "/dev/tty", "/dev/stdin", "/dev/fd/0"),
    *("/proc/self/mem", "/proc/self/environ", "/sys/kernel/debug", "~nosuchuser", "~nosuchuser/x", "~root", "://"),
)


def odd_words(seed: int) -> str:
    """Return a word with a number of thousands of digits, or the name of something odd on this host."""
    roll = random.Random(seed)
    number = roll.choice(("9", "٣", "1")) * roll.choice(DIGITS)
    if roll.random() < 0.5:
        return roll.choice(PLACES)
    return roll.choice(
        ("{}", "3.9.{}", "{}.1.1", "3.9.1:metadata.version={}", "{}s", "t-0:{}", "a={}", "-{}", ">={}")
    ).format(number)


def _put_number(path: Path, roll: random.Random, digits: bytes) -> str:
    content = path.read_bytes()
    found = list(_NUMBER.finditer(content))
    if not found:
        return "nothing"
    at = roll.choice(found)
    wrapped = roll.choice((digits, digits, b'"' + digits + b'"', b'"3.9.' + digits + b'"', b"-" + digits.lstrip(b"-")))
    _write(path, content[: at.start()] + wrapped + content[at.end() :])
    return f"{len(digits)} digits at byte {at.start()}"


def _text_file(record: Path, roll: random.Random) -> Path:
    kinds = (".json", ".jsonl", ".toml")
    return roll.choice(sorted(one for one in record.rglob("*") if one.is_file() and one.suffix in kinds))


def _write(path: Path, content: bytes) -> None:
    # A new file: the old one may be a hard link to the original.
    path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
