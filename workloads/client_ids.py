"""Checks the ids of a run's clients: a record distinguishes its clients by them."""

from __future__ import annotations

from collections.abc import Sequence

from ebbtide.errors import UsageError
from ebbtide.journal.payload import PRODUCER_MAX
from ebbtide.scenario.model import ConsumerSpec, ProducerSpec


def check_client_ids(producers: Sequence[ProducerSpec], consumers: Sequence[ConsumerSpec]) -> None:
    """Raise `UsageError` for client ids that a record could not distinguish."""
    for kind, ids, highest in (
        ("producer", [spec.id for spec in producers], PRODUCER_MAX),
        ("consumer", [spec.id for spec in consumers], 2**31 - 1),
    ):
        for id_ in ids:
            if not 1 <= id_ <= highest or ids.count(id_) > 1:
                raise UsageError(
                    f"{kind} id {id_} cannot be used",
                    got="an id twice" if ids.count(id_) > 1 else str(id_),
                    allowed=f"different ids from 1 to {highest}",
                    next=f"give every {kind} of the scenario an id of its own",
                )
