"""Decodes KRaft messages from Apache Kafka's own JSON definitions.

The definitions are the files in schemas/, of release 4.4.0. They are cumulative: a field carries the versions that
have it, so that the newest set decodes the logs of every release from 3.3 on. Every message here is flexible from
version 0, which leaves one encoding: compact strings and arrays, and tagged fields at the end of each struct. Field
names are the definitions' with a lower first letter, as Kafka's own JSON converters print them.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import resources
from typing import TypeAlias

from ebbtide.logs.codecs import UndecodableError

Value: TypeAlias = "bool | int | float | str | bytes | list[Value] | dict[str, Value] | None"
Reader: TypeAlias = "Callable[[Cursor], Value]"

_NEWEST = 32767


class Cursor:
    """A position in a message.

    Every read moves it forward, and raises `UndecodableError` at the end.
    """

    __slots__ = ("data", "position")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def read_bytes(self, size: int) -> bytes:
        """Read the next `size` bytes."""
        end = self.position + size
        if size < 0 or end > len(self.data):
            raise UndecodableError(f"{size} bytes wanted at {self.position}, {len(self.data) - self.position} left")
        piece = self.data[self.position : end]
        self.position = end
        return piece

    def read_uvarint(self) -> int:
        """Read an unsigned varint."""
        value = shift = 0
        while True:
            byte = self.read_bytes(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise UndecodableError("a varint of more than ten bytes")


class Message:
    """One message definition; `decode` reads any version in `versions`."""

    def __init__(self, definition: Mapping[str, object]) -> None:
        self.name = _text(definition["name"])
        self.api_key = definition.get("apiKey")
        self.versions = _versions(_text(definition["validVersions"]))
        if _versions(_text(definition["flexibleVersions"])).start != 0:
            raise ValueError(f"{self.name} is not flexible from version 0")
        self._fields = _objects(definition["fields"])
        self._structs = {
            _text(each["name"]): _objects(each["fields"]) for each in _objects(definition.get("commonStructs", []))
        }
        self._readers: dict[int, Reader] = {}

    def decode(self, cursor: Cursor, version: int) -> dict[str, Value]:
        """Return the fields of the message at `cursor`.

        Raises `UndecodableError`, also for bytes that are left over.
        """
        reader = self._readers.get(version)
        if reader is None:
            if version not in self.versions:
                raise UndecodableError(f"version {version}, known up to {self.versions.stop - 1}")
            reader = self._readers[version] = _struct_reader(self._fields, version, self._structs)
        fields = reader(cursor)
        if cursor.position != len(cursor.data):
            raise UndecodableError(f"{len(cursor.data) - cursor.position} bytes left over")
        assert isinstance(fields, dict)
        return fields


@cache
def messages() -> dict[str, Message]:
    """Return every bundled message, by name."""
    folder = resources.files("ebbtide.kraft") / "schemas"
    loaded = [load(file.read_text("utf-8")) for file in folder.iterdir() if file.name.endswith(".json")]
    return {message.name: message for message in loaded}


@cache
def metadata_messages() -> dict[int, Message]:
    """Return the metadata records, by API key."""
    return {message.api_key: message for message in messages().values() if isinstance(message.api_key, int)}


def load(text: str) -> Message:
    """Return the message of a definition file's text; `//` comment lines are dropped."""
    return Message(json.loads("\n".join(line for line in text.splitlines() if not line.lstrip().startswith("//"))))


def _text(value: object) -> str:
    assert isinstance(value, str)
    return value


def _objects(value: object) -> list[dict[str, object]]:
    assert isinstance(value, list)
    return value


def _versions(text: str) -> range:
    if text == "none":
        return range(0)
    first, _, last = text.partition("-")
    if first.endswith("+"):
        return range(int(first[:-1]), _NEWEST + 1)
    return range(int(first), int(last or first) + 1)


def _struct_reader(
    fields: Iterable[dict[str, object]], version: int, structs: Mapping[str, list[dict[str, object]]]
) -> Reader:
    plain: list[tuple[str, Reader | None, Value]] = []
    tagged: dict[int, tuple[str, Reader]] = {}
    for field in fields:
        name, kind, default = _text(field["name"]), _text(field["type"]), _default(field)
        name = name[0].lower() + name[1:]
        if version not in _versions(_text(field["versions"])):
            plain.append((name, None, default))
            continue
        nullable = version in _versions(_text(field.get("nullableVersions", "none")))
        reader = _reader(kind, nullable, field, version, structs)
        if version in _versions(_text(field.get("taggedVersions", "none"))):
            plain.append((name, None, default))
            tagged[int(str(field["tag"]))] = (name, reader)
        else:
            plain.append((name, reader, default))

    def read(cursor: Cursor) -> Value:
        values = {name: default if reader is None else reader(cursor) for name, reader, default in plain}
        for _ in range(cursor.read_uvarint()):
            tag, size = cursor.read_uvarint(), cursor.read_uvarint()
            inner = Cursor(cursor.read_bytes(size))
            if tag in tagged:
                name, reader = tagged[tag]
                values[name] = reader(inner)
        return values

    return read


def _reader(
    kind: str,
    nullable: bool,
    field: Mapping[str, object],
    version: int,
    structs: Mapping[str, list[dict[str, object]]],
) -> Reader:
    if kind.startswith("[]"):
        return _array_reader(_reader(kind[2:], False, field, version, structs), nullable)
    if kind in _NUMBERS:
        return _number_reader(_NUMBERS[kind])
    match kind:
        case "bool":
            return lambda cursor: cursor.read_bytes(1) != b"\0"
        case "uuid":
            return lambda cursor: uuid_text(cursor.read_bytes(16))
        case "string":
            return _compact_reader(lambda piece: piece.decode(), nullable)
        case "bytes":
            return _compact_reader(lambda piece: piece, nullable)
    return _struct_reader(_objects(field["fields"]) if "fields" in field else structs[kind], version, structs)


_NUMBERS = {
    "int8": struct.Struct(">b"),
    "int16": struct.Struct(">h"),
    "uint16": struct.Struct(">H"),
    "int32": struct.Struct(">i"),
    "int64": struct.Struct(">q"),
    "float64": struct.Struct(">d"),
}


def _number_reader(layout: struct.Struct) -> Reader:
    def read(cursor: Cursor) -> Value:
        value: int | float = layout.unpack(cursor.read_bytes(layout.size))[0]
        return value

    return read


def _compact_reader(convert: Callable[[bytes], Value], nullable: bool) -> Reader:
    def read(cursor: Cursor) -> Value:
        size = cursor.read_uvarint() - 1
        if size < 0 and nullable:
            return None
        try:
            return convert(cursor.read_bytes(size))
        except UnicodeDecodeError:
            raise UndecodableError("a string that is not UTF-8") from None

    return read


def _array_reader(element: Reader, nullable: bool) -> Reader:
    def read(cursor: Cursor) -> Value:
        count = cursor.read_uvarint() - 1
        if count < 0:
            if nullable:
                return None
            raise UndecodableError("null for an array that is never null")
        return [element(cursor) for _ in range(count)]

    return read


def uuid_text(raw: bytes) -> str:
    """Return a UUID as Kafka prints it: 22 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _default(field: Mapping[str, object]) -> Value:
    kind, given = _text(field["type"]), field.get("default")
    if given == "null":
        return None
    if kind.startswith("[]"):
        return []
    if kind == "bool":
        return given in ("true", True)
    if kind == "float64":
        return float(str(given or 0))
    if kind in _NUMBERS:
        return int(str(given or 0))
    if kind == "string":
        return str(given or "")
    if kind == "uuid":
        return uuid_text(bytes(16))
    return b"" if kind == "bytes" else {}
