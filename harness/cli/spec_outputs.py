"""What the actions of `ebbtide spec` print with --json."""

from __future__ import annotations

from typing import Literal

import msgspec

from analysis.spec.explore.properties import Property
from analysis.spec.explore.question import Answer
from analysis.spec.explore.search import Ending
from analysis.spec.explore.trace_rows import TraceRow, trace_rows
from analysis.spec.model.bounds import Bounds
from analysis.spec.variants import VARIANTS
from analysis.spec.vectors import Difference, Tally
from ebbtide.errors import ExitCode
from ebbtide.scenario.model import Prediction

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
