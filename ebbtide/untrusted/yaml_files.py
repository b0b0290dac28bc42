"""The one way to read YAML that somebody else may have written: each value is a text with its line.

No value is made into a number, a date or a Python object, so a file can do nothing, and `2.10` stays `2.10`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import yaml

from ebbtide.errors import UsageError
from ebbtide.untrusted.values import CORRECT_IT, DEPTH_MAX

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NULL = "tag:yaml.org,2002:null"


class YamlValue(msgspec.Struct, frozen=True, kw_only=True):
    """A value, and its line from 1. `content` is a text, a list, a table, or None for null."""

    content: str | list[YamlValue] | dict[str, YamlValue] | None
    line: int

    def at(self, *keys: str) -> YamlValue:
        """Return the value below these keys; null where there is none."""
        found = self
        for key in keys:
            found = found.table.get(key) or YamlValue(content=None, line=found.line)
        return found

    @property
    def table(self) -> dict[str, YamlValue]:
        """The entries of a table; empty for any other value."""
        return self.content if isinstance(self.content, dict) else {}

    @property
    def items(self) -> list[YamlValue]:
        """The values of a list; empty for any other value."""
        return self.content if isinstance(self.content, list) else []

    @property
    def text(self) -> str | None:
        """The text of a plain value; None for any other value."""
        return self.content if isinstance(self.content, str) else None


def read_documents(path: Path, content: bytes) -> Iterator[YamlValue]:
    """Yield the documents of a file. Raises `UsageError` with the line for what is no YAML, or has no end."""
    try:
        text = content.decode("utf-8-sig")
        _check_depth(path, text)
        loader = _LOADER(text)
        while loader.check_node():
            yield _YamlNodes(path, loader).value(loader.get_node())
    except UnicodeDecodeError as error:
        raise _error(path, None, "the file is not UTF-8", str(error)) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _error(path, mark, "broken YAML", str(error.problem or error.context)) from None
    except yaml.YAMLError as error:
        raise _error(path, None, "broken YAML", str(error)) from None


def _check_depth(path: Path, text: str) -> None:
    """Raise `UsageError` for deep nesting, before a reader follows it with Python's own stack."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEPTH_MAX:
            raise _error(path, event.start_mark, "lists and tables are nested too deep", f"more than {DEPTH_MAX}")


def _error(path: Path, mark: Any, what: str, got: str) -> UsageError:
    error = UsageError(what, where=str(path), got=" ".join(got.split())[:200], next=CORRECT_IT)
    return error if mark is None else error.at_line(mark.line + 1, mark.column + 1)


class _YamlNodes:
    """Makes values of the nodes of one document."""

    def __init__(self, path: Path, loader: Any) -> None:
        self._path = path
        self._loader = loader
        self._read: dict[int, YamlValue | None] = {}

    def value(self, node: Any) -> YamlValue:
        """Return the value of a node. Aliases share one value, so a small file stays small."""
        line = node.start_mark.line + 1
        if isinstance(node, yaml.ScalarNode):
            return YamlValue(content=None if node.tag == _NULL else node.value, line=line)
        if id(node) in self._read:
            if (known := self._read[id(node)]) is None:
                raise _error(self._path, node.start_mark, "an alias stands for a part of itself", "an endless value")
            return known
        self._read[id(node)] = None
        content = self._table(node) if isinstance(node, yaml.MappingNode) else [self.value(one) for one in node.value]
        self._read[id(node)] = found = YamlValue(content=content, line=line)
        return found

    def _table(self, node: Any) -> dict[str, YamlValue]:
        """Return the entries of a table; its own ones count before those that `<<` merges."""
        merged: dict[str, YamlValue] = {}
        own: dict[str, YamlValue] = {}
        for key, value in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                read = self.value(value)
                for one in reversed(read.items or [read]):
                    merged |= one.table
                continue
            if not isinstance(key, yaml.ScalarNode):
                raise _error(self._path, key.start_mark, "a key is no text", "a list or a table")
            if key.value in own:
                raise _error(self._path, key.start_mark, "the same key twice", key.value[:60])
            read = self.value(value)
            own[key.value] = YamlValue(content=read.content, line=key.start_mark.line + 1)
        return {**merged, **own}
