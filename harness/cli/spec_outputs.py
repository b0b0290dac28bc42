"""What the actions of `ebbtide spec` print with --json."""

from __future__ import annotations

from typing import Literal

import msgspec

from analysis.spec.explore.properties import Property
from analysis.spec.explore.question import Answer
from analysis.spec.explore.search import Ending
from analysis.spec.explore.trace import Trace
from analysis.spec.explore.wording import BEGINNING, clause_of, record_names, sentence
from analysis.spec.model import words as w
from analysis.spec.model.bounds import Bounds
from analysis.spec.model.words import DATA_BITS, LOG, unpack
from analysis.spec.protocol import Protocol
from analysis.spec.variants import VARIANTS
from analysis.spec.vectors import Difference, Tally
from ebbtide.errors import ExitCode
from ebbtide.scenario.model import Prediction


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


SpecResult = Literal["holds", "violated", "not-decided", "not-exhausted"]
"""`not-decided`: no fixed replica order allows the violations that were found. `not-exhausted`: a limit came first."""

EXIT_OF_RESULT: dict[SpecResult, ExitCode] = {
    "holds": ExitCode.AS_PREDICTED,
    "violated": ExitCode.CONTRADICTED,
    "not-decided": ExitCode.INCONCLUSIVE,
    "not-exhausted": ExitCode.INCONCLUSIVE,
}


class SpecCheckOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a search within `bounds`.

    - `ending`: the search was `exhausted`, found a violation, or met a limit.
    - `states` are distinct, `moves` counts every successor, all within `depth` steps. `ignored` counts violations
      that no fixed replica order allows.
    - `counterexample` begins with the initial state, and is empty without a violation. `page` is that of --html.
    """

    property: str
    clause: str
    variant: str
    bounds: Bounds
    result: SpecResult
    ending: Ending
    states: int
    moves: int
    depth: int
    took_s: float
    ignored: int
    counterexample: tuple[TraceRow, ...] = ()
    page: str | None = None


class SpecFindOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The scenario file of a counterexample; without one, `file` is null and `why` says why.

    `steps` are those of the file, `counterexample_steps` those of the model.
    """

    file: str | None = None
    why: str | None = None
    states: int
    ignored: int
    kafka: tuple[str, ...] = ()
    steps: int = 0
    counterexample_steps: int = 0
    predictions: tuple[Prediction, ...] = ()


class SpecRulesOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of a variant as Python code; `event` is null for all events."""

    variant: str
    event: str | None
    code: str


class SpecVectorsOutput(msgspec.Struct, frozen=True, kw_only=True):
    """How many vectors agree with the specification, and every difference."""

    vectors: int
    tallies: tuple[Tally, ...]
    differences: tuple[Difference, ...]


def result_of(answer: Answer) -> SpecResult:
    """Return what a search found."""
    if answer.holds:
        return "holds"
    if answer.found.ending == "exhausted":
        return "not-decided"
    return "not-exhausted" if answer.trace is None else "violated"


def check_output(variant: str, bounds: Bounds, asked: Property, answer: Answer, page: str | None) -> SpecCheckOutput:
    """Return the result of `spec check`."""
    found = answer.found
    return SpecCheckOutput(
        property=asked.name,
        clause=asked.clause,
        variant=variant.replace("_", "-"),
        bounds=bounds,
        result=result_of(answer),
        ending=found.ending,
        states=found.states,
        moves=found.moves,
        depth=found.depth,
        took_s=round(found.elapsed_s, 3),
        ignored=answer.turned_down,
        counterexample=() if answer.trace is None else trace_rows(answer.trace, VARIANTS[variant]),
        page=page,
    )
