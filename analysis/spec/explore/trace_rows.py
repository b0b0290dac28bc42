"""A counterexample as data: who acts at each step, by which clause, and the state after it."""

from __future__ import annotations

import msgspec

from analysis.spec.explore.trace import Trace
from analysis.spec.explore.wording import BEGINNING, clause_of, record_names, sentence
from analysis.spec.model import words as w
from analysis.spec.model.words import DATA_BITS, LOG, unpack
from analysis.spec.protocol import Protocol


class TraceRow(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a counterexample, and the state after it; row 0 is the beginning, and nobody acts.

    - `leader`, `isr`, `elr`, `last_known_elr` are broker ids of the controller's record.
    - Records have a letter each: `committed`, the `logs` by broker id, and what the new leader `lost`.
    """

    number: int
    kind: str
    who: str
    what: str
    clause: str
    leader: int | None
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]
    committed: str
    logs: dict[int, str]
    lost: str


def trace_rows(trace: Trace, protocol: Protocol) -> tuple[TraceRow, ...]:
    """Return the beginning and each step; `protocol` is the variant that the trace was found in."""
    rows = [_row(trace.initial, 0, number=0, kind="beginning", what=BEGINNING)]
    for number, step in enumerate(trace.steps, 1):
        who, what = sentence(step, trace.orders.get(number - 1, step.brokers))
        row = _row(step.words, step.data, number=number, kind=step.kind, what=what)
        clause, lost = clause_of(step.kind, protocol), record_names(step.lost)
        rows.append(msgspec.structs.replace(row, who=who, clause=clause, lost=lost))
    return tuple(rows)


def _row(words: dict[int, int], data: int, *, number: int, kind: str, what: str) -> TraceRow:
    def brokers_with(flag: int) -> tuple[int, ...]:
        return tuple(broker for broker, word in words.items() if word >> DATA_BITS & flag)

    return TraceRow(
        number=number,
        kind=kind,
        who="",
        what=what,
        clause="",
        leader=next(iter(brokers_with(w.LEADER)), None),
        isr=brokers_with(w.IN_ISR),
        elr=brokers_with(w.IN_ELR),
        last_known_elr=brokers_with(w.LAST_KNOWN),
        committed=record_names(unpack(data).committed),
        logs={broker: record_names(word & LOG) for broker, word in words.items()},
        lost="",
    )
