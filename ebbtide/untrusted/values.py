"""The one way to decode JSON and TOML that somebody else may have written.

Decoders have an exception for each thing that can be wrong, and accept values that the code behind them cannot take:
tables nested deeper than Python's stack, and whole numbers of more than 64 bits.
"""

from __future__ import annotations

import contextlib
import errno
import re
import struct
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ebbtide.errors import HarnessError, UsageError

T = TypeVar("T")

DEPTH_MAX = 64
"""How deep lists and tables may be nested; scenarios and records have less than ten levels."""

DIGITS_MAX = 1_000
"""Python refuses to turn more than 4,300 digits into a number, or a number into that many digits."""

CORRECT_IT = "correct the file, and type the same command again"
"""What to do with a broken file of one's own."""

_SHOWN_MAX = 300
_ENDLESS = re.compile(rf"(?<!\d)\d{{{DIGITS_MAX + 1}}}")
_BITS_MAX = 3_322
_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1


DECODING_ERRORS = (ValueError, LookupError, ArithmeticError, TypeError, struct.error, RecursionError, MemoryError)
"""What Python, msgspec and pyarrow raise for bytes that are not what their format promises."""


_LACKS = (errno.ENOMEM, errno.EMFILE, errno.ENFILE)


def lack_of_host(error: BaseException, what: str, where: Path | str | None) -> HarnessError | None:
    """Return the error to raise if the host lacked memory or file descriptors to read `what`; else None.

    That says nothing about what was read: it is not damaged.
    """
    if not isinstance(error, MemoryError) and getattr(error, "errno", None) not in _LACKS:
        return None
    return HarnessError(
        f"the host has too little memory, or too few file descriptors, to read {what}",
        where=None if where is None else str(where),
        got=f"{type(error).__name__}: {error}"[:_SHOWN_MAX],
        next="end other processes, and try again",
    )


@contextlib.contextmanager
def decoding(what: str, where: Path | str, *, next: str | None = None) -> Iterator[None]:
    """Turn every error of a decoder in the block into one `UsageError`, which says that `what` is damaged.

    A lack of memory becomes a `HarnessError` instead.

    The block may only decode: a bug in other code would be reported as damage.
    """
    try:
        yield
    except DECODING_ERRORS as error:
        raise lack_of_host(error, what, where) or UsageError(
            f"{what} is damaged", where=str(where), got=f"{type(error).__name__}: {error}"[:_SHOWN_MAX], next=next
        ) from None


def decode_json(content: bytes, kind: type[T], dec_hook: Callable[[type, Any], Any] | None = None) -> T:
    """Return the value of type `kind`. Raises only `msgspec.DecodeError`.

    `dec_hook` is msgspec's: it reads types that msgspec does not know. It may raise `ValueError`, which is converted.
    """
    try:
        check_values(msgspec.json.decode(content))
        return msgspec.json.decode(content, type=kind, dec_hook=dec_hook)
    except msgspec.DecodeError:
        raise
    except (ValueError, RecursionError, OverflowError) as error:
        raise msgspec.DecodeError(str(error)) from None


def decode_toml(text: str) -> dict[str, object]:
    """Return the tables of a TOML file. Raises only `ValueError`.

    Whole numbers may have more than 64 bits: whoever reads them says where they stand in the file.
    """
    try:
        tables = tomllib.loads(text)
        check_values(tables, any_size=True)
    except RecursionError:
        raise ValueError(_too_deep()) from None
    return tables


def has_endless_number(text: str) -> bool:
    """Whether a text has a number of more than `DIGITS_MAX` digits, whatever is meant by the text."""
    return len(text) > DIGITS_MAX and _ENDLESS.search(text) is not None


def check_values(value: Any, *, any_size: bool = False) -> None:
    """Raise `ValueError` for values nested too deep, and for whole numbers that are too large.

    They may have 64 bits, with `any_size` `DIGITS_MAX` digits. So may a number that is a part of a text or a key:
    somebody may read it.
    """
    level: Iterable[Any] = (value,)
    for _ in range(DEPTH_MAX + 1):
        inner: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                inner += one.values()
                inner += [key for key in one if len(key) > DIGITS_MAX]
            elif isinstance(one, list):
                inner += one
            elif not any_size and isinstance(one, int) and not _INT_MIN <= one <= _INT_MAX:
                raise ValueError(f"a whole number of more than 64 bits - at `${_place_of(value, one)}`")
            elif (isinstance(one, int) and one.bit_length() > _BITS_MAX) or (
                isinstance(one, str) and has_endless_number(one)
            ):
                raise ValueError(f"a number of more than {DIGITS_MAX:,} digits - at `${_place_of(value, one)}`")
        if not inner:
            return
        level = inner
    raise ValueError(_too_deep())


def _place_of(value: Any, wanted: int | str) -> str:
    """Return the first place of a number in `value`, as msgspec writes places."""
    below = [(f".{key}", one) for key, one in value.items()] if isinstance(value, dict) else []
    below += [(f"[{at}]", one) for at, one in enumerate(value)] if isinstance(value, list) else []
    for name, one in below:
        if one is wanted:
            return name
        if isinstance(one, dict | list) and (place := _place_of(one, wanted)):
            return name + place
    return ""


def _too_deep() -> str:
    return f"lists and tables nested more than {DEPTH_MAX} deep"
