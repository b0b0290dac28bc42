"""What a step of a record asked for, as values."""

from __future__ import annotations

import msgspec


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a step that readers of records need; a kind has those of its scenario key.

    None: the step has no such parameter, or the record has another type of value there. Roles are texts, as in the
    scenario file.
    """

    name: str | None = None
    optional: bool | None = None
    target: str | None = None
    from_: tuple[str, ...] | None = msgspec.field(name="from", default=None)
    to: tuple[str, ...] | None = None
    groups: tuple[tuple[str, ...], ...] | None = None
    directory: int | None = None
    api: str | None = None
    topic: str | None = None
    partition: str | None = None
    type: str | None = None
    strategy: str | None = None
    expect_error: str | None = None
