"""Reading JSON that somebody else may have written: whatever is wrong with it is one kind of error."""

from __future__ import annotations

from typing import TypeVar

import msgspec

T = TypeVar("T")


def decoded(content: bytes, kind: type[T]) -> T:
    """The value of type `kind`. Raises `msgspec.DecodeError` for all that is no such value.

    msgspec has other exceptions for text that is no UTF-8 and for values nested deeper than Python's stack.
    """
    try:
        return msgspec.json.decode(content, type=kind)
    except (UnicodeDecodeError, RecursionError) as error:
        raise msgspec.DecodeError(str(error)) from None
