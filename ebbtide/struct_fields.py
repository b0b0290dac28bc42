"""The fields of a struct, worked out once.

msgspec evaluates the annotations of a type at each call, which takes more time than all else in reading a scenario.
"""

from __future__ import annotations

import functools

import msgspec


@functools.cache
def struct_fields(kind: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """Return the fields of a struct type, in order."""
    return msgspec.structs.fields(kind)
